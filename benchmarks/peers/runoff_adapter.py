"""Runoff by plain strings, the passages tokenised in every call as the peers have to; the variant is the backend."""

PACKAGES = ("runoff", "onnxruntime")


def load(variant, models, threads):
    from runoff.reranker import Reranker

    reranker = Reranker.load(backend=variant, threads=threads)

    def score(query, passages):
        found = {hit.index: hit.logit for hit in reranker.rank(query, passages, top_n=len(passages))}
        return [found[index] for index in range(len(passages))]

    return score
