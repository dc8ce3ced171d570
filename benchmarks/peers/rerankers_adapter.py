"""rerankers with its transformer model class: torch in fp32."""

PACKAGES = ("rerankers", "torch")


def load(variant, models, threads):
    import torch
    from rerankers import Reranker

    torch.set_num_threads(threads)
    folder = str(models / "checkpoint")
    model = Reranker(folder, model_type="cross-encoder", device="cpu", dtype="fp32", batch_size=32, verbose=0)

    def score(query, passages):
        found = {result.doc_id: result.score for result in model.rank(query, passages).results}
        return [float(found[index]) for index in range(len(passages))]

    return score
