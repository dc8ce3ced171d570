"""Clients that others wrote, pointed at a running service; each is tried where it is installed (extra `clients`)."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from conftest import ARTICLES
from runoff import Engine, Reranker
from runoff.reranker import Hit
from runoff.serve.service import Service
from runoff.serve.settings import Settings
from runoff.stages import ModelStages
from serving import Running, running

pytestmark = pytest.mark.filterwarnings("ignore")  # what others deprecate is theirs

KEY = "a key of the test"
QUESTION = "How long does a payout to another country take?"
TEXTS = [text for _, text in ARTICLES]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory, stages: ModelStages) -> Iterator[Running]:
    folder = tmp_path_factory.mktemp("clients")
    settings = Settings(store=folder / "store", api_key=KEY)
    with running(Service(settings, Engine(settings.store, stages), folder / "runtime")) as server:
        yield server


@pytest.fixture(autouse=True)
def _collect() -> Iterator[None]:
    """Sockets that a client left open are found in its own test, whose filter lets that pass."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def ranked(stages: ModelStages) -> list[Hit]:
    return Reranker(stages.scorer).rank(QUESTION, TEXTS, top_n=len(TEXTS))


@pytest.fixture(scope="module")
def vectors(stages: ModelStages) -> NDArray[np.float32]:
    return stages.encoder.encode(TEXTS)


def take(package: str) -> Any:
    return pytest.importorskip(package, reason=f"{package} is not installed", exc_type=ImportError)


def test_cohere_v1(server: Running, ranked: list[Hit]) -> None:
    client = take("cohere").Client(KEY, base_url=server.url)
    answer = client.rerank(query=QUESTION, documents=TEXTS, model="any", top_n=2, return_documents=True)
    assert [(row.index, row.relevance_score) for row in answer.results] == [(h.index, h.score) for h in ranked[:2]]
    assert answer.results[0].document.text == ranked[0].text
    assert answer.meta.api_version.version == "1"
    objects = [{"text": text} for text in TEXTS]
    assert client.rerank(query=QUESTION, documents=objects, model="any").results[0].index == ranked[0].index


def test_cohere_v2(server: Running, ranked: list[Hit]) -> None:
    client = take("cohere").ClientV2(KEY, base_url=server.url)
    answer = client.rerank(query=QUESTION, documents=TEXTS, model="any", max_tokens_per_doc=4096)
    assert [(row.index, row.relevance_score) for row in answer.results] == [(h.index, h.score) for h in ranked]


def test_coheres_errors_are_its_own(server: Running) -> None:
    cohere = take("cohere")
    with pytest.raises(cohere.UnprocessableEntityError, match="query"):
        cohere.ClientV2(KEY, base_url=server.url).rerank(query=" ", documents=TEXTS, model="any")
    with pytest.raises(cohere.UnauthorizedError, match="Bearer"):
        cohere.ClientV2("wrong", base_url=server.url).rerank(query="a", documents=TEXTS, model="any")


def test_openai(server: Running, vectors: NDArray[np.float32], stages: ModelStages) -> None:
    client = take("openai").OpenAI(base_url=f"{server.url}/v1", api_key=KEY)
    for settings in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}):
        answer = client.embeddings.create(model="any", input=TEXTS, **settings)
        rows = [row.embedding for row in answer.data]
        if isinstance(rows[0], str):  # asked for base64 by name, one gets that
            continue
        assert np.array_equal(np.array(rows, np.float32), vectors)
    tokens = [stages.counter.encode(text) for text in TEXTS]
    rows = [row.embedding for row in client.embeddings.create(model="any", input=tokens).data]
    assert np.array_equal(np.array(rows, np.float32), vectors)
    assert {model.id for model in client.models.list()} == {artifact.name for artifact in stages.artifacts}


def test_openais_errors_are_its_own(server: Running) -> None:
    openai = take("openai")
    client = openai.OpenAI(base_url=f"{server.url}/v1", api_key=KEY, max_retries=0)
    with pytest.raises(openai.UnprocessableEntityError) as refused:
        client.embeddings.create(model="any", input="a", dimensions=7)
    assert refused.value.param == "dimensions"
    with pytest.raises(openai.AuthenticationError):
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="wrong").embeddings.create(model="any", input="a")
    everything = server.service.admission.most_running + server.service.admission.most_waiting
    with server.busy(everything), pytest.raises(openai.RateLimitError):
        client.embeddings.create(model="any", input="a")


def test_openai_asynchronous(server: Running, vectors: NDArray[np.float32]) -> None:
    openai = take("openai")

    async def main() -> list[Any]:
        async with openai.AsyncOpenAI(base_url=f"{server.url}/v1", api_key=KEY) as client:
            calls = [client.embeddings.create(model="any", input=text) for text in TEXTS]
            return [answer.data[0].embedding for answer in await asyncio.gather(*calls)]

    assert np.array_equal(np.array(asyncio.run(main()), np.float32), vectors)


def test_langchain_cohere_rerank(server: Running, ranked: list[Hit]) -> None:
    documents = take("langchain_core.documents")
    reranker = take("langchain_cohere").CohereRerank(
        base_url=server.url, cohere_api_key=KEY, model="any", top_n=2, user_agent="test"
    )
    found = reranker.compress_documents([documents.Document(page_content=text) for text in TEXTS], QUESTION)
    assert [document.page_content for document in found] == [hit.text for hit in ranked[:2]]
    assert found[0].metadata["relevance_score"] == ranked[0].score


def test_langchain_openai_embeddings(server: Running, vectors: NDArray[np.float32]) -> None:
    embeddings = take("langchain_openai").OpenAIEmbeddings(
        base_url=f"{server.url}/v1", api_key=KEY, model="any", check_embedding_ctx_length=False
    )
    assert np.array_equal(np.array(embeddings.embed_documents(TEXTS), np.float32), vectors)
    assert np.array_equal(np.array(embeddings.embed_query(TEXTS[0]), np.float32), vectors[0])


def test_langchain_jina_rerank(server: Running, ranked: list[Hit], monkeypatch: pytest.MonkeyPatch) -> None:
    module = take("langchain_community.document_compressors.jina_rerank")
    monkeypatch.setattr(module, "JINA_API_URL", f"{server.url}/v1/rerank")
    rows = module.JinaRerank(jina_api_key=KEY, model="any").rerank(TEXTS, QUESTION, top_n=3)
    assert rows == [{"index": hit.index, "relevance_score": hit.score} for hit in ranked[:3]]


def nodes() -> Any:
    schema = take("llama_index.core.schema")
    return [schema.NodeWithScore(node=schema.TextNode(text=text), score=0.0) for text in TEXTS]


def test_llama_index_cohere_rerank(server: Running, ranked: list[Hit]) -> None:
    reranker = take("llama_index.postprocessor.cohere_rerank").CohereRerank(
        api_key=KEY, base_url=server.url, model="any", top_n=2
    )
    found = reranker.postprocess_nodes(nodes(), query_str=QUESTION)
    assert [(node.text, node.score) for node in found] == [(hit.text, hit.score) for hit in ranked[:2]]


def test_llama_index_jina_rerank(server: Running, ranked: list[Hit]) -> None:
    reranker = take("llama_index.postprocessor.jinaai_rerank").JinaRerank(
        api_key=KEY, base_url=f"{server.url}/v1", model="any", top_n=2
    )
    found = reranker.postprocess_nodes(nodes(), query_str=QUESTION)
    assert [(node.text, node.score) for node in found] == [(hit.text, hit.score) for hit in ranked[:2]]


def test_llama_index_tei_rerank(server: Running, ranked: list[Hit]) -> None:
    reranker = take("llama_index.postprocessor.tei_rerank").TextEmbeddingInference(
        base_url=server.url, auth_token=f"Bearer {KEY}", top_n=2
    )
    found = reranker.postprocess_nodes(nodes(), query_str=QUESTION)
    assert [(node.text, node.score) for node in found] == [(hit.text, hit.score) for hit in ranked[:2]]


def test_llama_index_tei_embeddings(server: Running, vectors: NDArray[np.float32]) -> None:
    embeddings = take("llama_index.embeddings.text_embeddings_inference").TextEmbeddingsInference(
        model_name="any", base_url=server.url, auth_token=KEY
    )
    assert np.array_equal(np.array(embeddings.get_text_embedding_batch(TEXTS), np.float32), vectors)


def test_llama_index_openai_embeddings(server: Running, vectors: NDArray[np.float32]) -> None:
    embeddings = take("llama_index.embeddings.openai").OpenAIEmbedding(
        api_base=f"{server.url}/v1", api_key=KEY, model_name="any"
    )
    assert np.array_equal(np.array(embeddings.get_text_embedding_batch(TEXTS), np.float32), vectors)
