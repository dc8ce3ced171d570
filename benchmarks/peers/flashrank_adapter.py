"""FlashRank, the 8-bit ONNX file under the name that it looks for; the logit is recovered from its score."""

PACKAGES = ("FlashRank", "onnxruntime")
NAME = "ms-marco-MiniLM-L-12-v2"


def load(variant, models, threads):
    import numpy as np
    from flashrank import Ranker, RerankRequest

    ranker = Ranker(model_name=NAME, cache_dir=str(models / "flashrank"), max_length=512)

    def score(query, passages):
        found = ranker.rerank(RerankRequest(query, [{"id": i, "text": text} for i, text in enumerate(passages)]))
        shares = np.empty(len(passages))
        for row in found:
            shares[row["id"]] = row["score"]
        return np.log(shares / (1 - shares)).tolist()

    return score
