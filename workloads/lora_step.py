"""A LoRA fine-tuning step of a small language model: adapters are trained on a frozen base in float32, 16 bit, int8 or int4.

The model on tokens [batch, block + 1]: their embeddings, ``layers`` blocks as in transformer_block, RMS norm, and logits by the same
embeddings; the loss is the mean cross-entropy with the next token. To the query and value projections an adapter adds
(ALPHA / RANK)·B·A·dropout(x), A [RANK, width], B [out, RANK] (Hu et al., LoRA, 2021). AdamW's update is amp_step's.

Quantized weights are unpacked where they are used, forward and backward: to keep them unpacked in between would cost what was saved.
Adapters and their moments are kept in float32, as peft keeps them, and multiply in the case's dtype as everything does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

import numpy as np

from metalbench.workloads._lora_step_inputs import GROUP, RANK, adapter, matrix, text, whole
from metalbench.workloads._lora_step_reference import loss_and_gradients
from metalbench.workloads._training import BETAS, followed, trajectory
from metalbench.workloads.base import EPS, ITEMSIZE, Array, Arrays, Case, Check, Cost, Suite, Workload, reduction_tolerance, rounded
from metalbench.workloads.transformer_block import BASE, REDUCTIONS, TransformerBlockCase

Base = Literal["dense", "int8", "int4"]

ALPHA = 32
DROPOUT = 0.1
KEEP = 1 - DROPOUT
SCALE = ALPHA / RANK
ADAPTED = ("q", "v")  #: the order of the two masks of a layer
BATCHES = 2  #: of text: an epoch is so many steps
EPOCHS = 3
STEPS = BATCHES * EPOCHS  #: length of the trajectory that is checked
#: 3.2 billion parameters
FULL_SIZE: Mapping[str, Any] = {"layers": 28, "width": 3072, "heads": 24, "kv_heads": 8, "hidden": 8192, "vocabulary": 128256}
NORMS = ("attention_norm", "mlp_norm")


class LoraStepCase(Case, frozen=True, kw_only=True):
    """``base``: how the blocks' matrices are stored, ``dense`` in the case's dtype; the rest of the base is in that dtype always.

    ``full_size``: the model is too large for float64. What is checked is its twin, two of its layers with a small vocabulary, and all
    of its layers and embeddings repeat the twin's, each in memory of its own.
    """

    base: Base
    layers: int
    width: int
    heads: int
    kv_heads: int
    hidden: int
    vocabulary: int
    block: int = 128
    batch: int = 4
    full_size: bool = False

    def twin(self) -> LoraStepCase:
        """The case that is checked: this one where it can be."""
        fields: dict[str, Any] = self.parameters() | {"layers": 2, "vocabulary": 4096, "full_size": False}
        return LoraStepCase(**fields) if self.full_size else self

    def of_layer(self) -> TransformerBlockCase:
        """A layer as a block that reads a prompt."""
        sizes = {"width": self.width, "heads": self.heads, "kv_heads": self.kv_heads, "hidden": self.hidden}
        return TransformerBlockCase(dtype=self.dtype, batch=self.batch, queries=self.block, context=0, **sizes)

    def adapters(self) -> dict[str, tuple[int, int]]:
        """Shapes of what is trained, by name: A of the first layer's q is ``layer0.q.a`` [RANK, width], B ``layer0.q.b`` [out, RANK]."""
        matrices = self.of_layer().matrices()
        shapes: dict[str, tuple[int, int]] = {}
        for name in (f"layer{layer}.{which}" for layer in range(self.layers) for which in ADAPTED):
            out, width = matrices[name[-1]]
            shapes |= {f"{name}.a": (RANK, width), f"{name}.b": (out, RANK)}
        return shapes

    def label(self) -> str:
        size = "full size (checked on a twin)" if self.full_size else f"{self.layers} layers {self.width}→{self.hidden} wide"
        return f"{self.base} base, {size}, {self.batch}×{self.block} tokens {self.dtype}"


class LoraStep(Workload[LoraStepCase]):
    """Outputs of a call: ``loss`` before the update, and everything that the step trains, which must be the adapters, after it.

    Right is a trajectory as in amp_step. A checkpoint's adapters would start with B = 0, at which neither A nor dropout nor ALPHA counts
    for anything; here they start as after some training, so that they do. Of a ``full_size`` case the outputs hold the twin's
    trajectory as ``twin.loss`` [STEPS], ``twin.layer0.q.a`` [STEPS, RANK, width] …

    Tolerance of the loss, which is of the logits' order: that of transformer_block with one more reduction, the logits', times
    √(1 + ln layers). Each layer adds to the stream something of like size, with an error of its own, ε, and with that of what it read:
    eₙ² = ε² + Σe² / n over those before it, which is ε² times a harmonic number. To that, what amp_step allows for Adam's update.
    """

    name = "lora_step"
    version = 1
    case_type = LoraStepCase
    variants = {"native": "as the framework's users train: eager in PyTorch, through the compiler or as a graph elsewhere"}

    def cases(self, suite: Suite) -> Iterable[LoraStepCase]:
        """``large`` has the full size too. ``documents`` has fewer tokens: against its base they weigh what they do there.

        16 bit is bfloat16: float16 would want a scaled loss, which is amp_step's subject.
        """
        if suite == "quick":
            return
        sizes: Mapping[str, Any] = {
            "documents": {"layers": 2, "width": 128, "heads": 4, "kv_heads": 2, "hidden": 384, "vocabulary": 256, "block": 8},
            "standard": {"layers": 4, "width": 1024, "heads": 16, "kv_heads": 8, "hidden": 2816, "vocabulary": 8192},
            "large": {"layers": 8, "width": 2048, "heads": 32, "kv_heads": 8, "hidden": 5632, "vocabulary": 32000},
        }[suite]
        bases: tuple[Base, ...] = ("dense", "int8", "int4")
        yield LoraStepCase(base="dense", **sizes)
        yield from (LoraStepCase(dtype="bfloat16", base=base, **sizes) for base in bases)
        if suite == "large":
            yield from (LoraStepCase(dtype="bfloat16", base=base, full_size=True, **FULL_SIZE) for base in bases)

    def inputs(self, case: LoraStepCase, rng: np.random.Generator) -> dict[str, Array]:
        """Of the case that is checked, see ``unfolded``. ``tokens`` int32 [BATCHES, batch, block + 1]; ``embedding`` [vocabulary, width].

        A layer's matrix [out, in] is ``layer0.q``, or ``layer0.q.codes`` and ``.scales`` (int8), and ``.offsets`` (int4), as in
        quantized_matmul. ``layer0.kept`` [BATCHES, q and v, batch, block, width]: where dropout keeps the adapter's input.
        """
        twin = case.twin()
        words = text(BATCHES * case.batch, case.block + 1, twin.vocabulary, rng)
        made = {"tokens": words.reshape(BATCHES, case.batch, case.block + 1)}
        made["embedding"] = rounded(rng.standard_normal((twin.vocabulary, case.width)) / math.sqrt(case.width), case.dtype)
        matrices, norms = frozen(twin)
        made |= {name: rounded(1 + rng.standard_normal(case.width, dtype=np.float32) / 8, case.dtype) for name in norms}
        for name in matrices:
            made |= matrix(name, case.of_layer().matrices()[name.partition(".")[2]], case.base, case.dtype, rng)
        for layer in range(twin.layers):
            made[f"layer{layer}.kept"] = rng.random((BATCHES, 2, case.batch, case.block, case.width), dtype=np.float32) >= DROPOUT
        return made | {name: adapter(shape, rng) for name, shape in twin.adapters().items()}

    def reference(self, case: LoraStepCase, inputs: Arrays) -> dict[str, Array]:
        """As amp_step's, of the case that is checked."""
        twin = case.twin()
        matrices, norms = frozen(twin)
        weights = {name: whole(name, inputs) for name in ("embedding", *matrices, *norms)}
        epoch = batches(twin, inputs)

        def step(number: int, adapters: Arrays) -> tuple[float, dict[str, Array]]:
            tokens, kept = epoch[number % BATCHES]
            return loss_and_gradients(twin.of_layer(), weights, adapters, SCALE, [masks / KEEP for masks in kept], tokens)

        return trajectory({name: inputs[name] for name in twin.adapters()}, STEPS, step)

    def cost(self, case: LoraStepCase, variant: str) -> Cost:  # noqa: ARG002 - there is one
        """FLOPs a token: 4 a frozen weight, forward and the gradient by its input; 6 an adapter's; attention thrice its forward."""
        tokens, matrices = case.batch * case.block, case.layers * sum(map(math.prod, case.of_layer().matrices().values()))
        embedding, trained = case.vocabulary * case.width, sum(map(math.prod, case.adapters().values()))
        pairs = case.batch * case.heads * case.block * (case.block + 1) // 2
        attention = 12 * case.layers * (case.width // case.heads) * pairs
        size = ITEMSIZE[case.dtype]
        a_weight = {"dense": size, "int8": 1 + size / GROUP, "int4": 0.5 + 2 * size / GROUP}[case.base]
        base, masks = int(matrices * a_weight) + size * embedding, 2 * case.layers * tokens * case.width
        scores = 3 * case.batch * case.heads * case.block**2
        activations = size * case.layers * (tokens * (9 * case.width + 4 * case.hidden) + scores) + 12 * tokens * case.vocabulary
        return Cost(
            flops=tokens * (4 * (matrices + embedding) + 6 * trained) + attention,
            bytes=base + 6 * 4 * trained + masks + 4 * case.batch * (case.block + 1),
            footprint=base + 7 * 4 * trained + BATCHES * masks + activations + size * case.width * case.hidden,
            amounts={"tokens": tokens},
        )

    def calls_checked(self, case: LoraStepCase) -> int:  # noqa: ARG002 - of the same length for all
        return STEPS

    def tolerance(self, case: LoraStepCase) -> float:
        longest = max(case.hidden, case.block)
        angles = case.block * EPS["float32"] / math.sqrt(2 * math.log(BASE))
        layer = reduction_tolerance(case.dtype, (REDUCTIONS + 1) * longest) + angles
        return math.sqrt(1 + math.log(case.twin().layers)) * layer + EPS["float32"] / (4 * (1 - BETAS[1]))

    def check(self, case: LoraStepCase, inputs: Arrays, outputs: Sequence[Arrays], reference: Arrays) -> Check:
        """As amp_step's, and no more may be trained than the adapters. Figure ``checked_layers``: of how many layers that was said."""
        first, twin, tolerance = outputs[0], case.twin(), self.tolerance(case)
        trained = {name for name in first if name != "loss" and not name.startswith("twin.")}
        for name in sorted(trained ^ set(case.adapters())):
            fault = "is trained and ought to be frozen" if name in trained else "ought to be trained"
            return Check(ok=False, error=math.inf, tolerance=tolerance, detail=f"{name} {fault}")
        if not all(np.isfinite(array).all() for out in outputs for array in out.values()):
            return Check(ok=False, error=math.inf, tolerance=tolerance, detail="the loss or an adapter holds NaN or infinity")
        if case.full_size:
            outputs = [{name: first[f"twin.{name}"][step] for name in ("loss", *twin.adapters())} for step in range(STEPS)]
        check = followed(case.dtype, {name: inputs[name] for name in twin.adapters()}, outputs, reference, tolerance)
        check.figures["checked_layers"] = float(twin.layers)
        return check


def unfolded(case: LoraStepCase, inputs: Arrays) -> dict[str, Array]:
    """The inputs of all layers: those of a twin are repeated, as often as needed, and so are its embeddings."""
    given, layers = case.twin().layers, [name for name in inputs if name.startswith("layer")]
    made = {name: array for name, array in inputs.items() if name not in layers}
    if case.full_size:
        made["embedding"] = np.resize(inputs["embedding"], (case.vocabulary, case.width))
    for layer in range(case.layers):
        prefix = f"layer{layer % given}."
        made |= {f"layer{layer}.{name.removeprefix(prefix)}": inputs[name] for name in layers if name.startswith(prefix)}
    return made


def batches(case: LoraStepCase, inputs: Arrays) -> list[tuple[Array, list[Array]]]:
    """For each step of an epoch the tokens [batch, block + 1], and by layer where dropout keeps [q and v, batch, block, width]."""
    kept = [inputs[f"layer{layer}.kept"] for layer in range(case.layers)]
    return [(inputs["tokens"][batch], [masks[batch] for masks in kept]) for batch in range(BATCHES)]


def frozen(case: LoraStepCase) -> tuple[list[str], list[str]]:
    """The names of the blocks' matrices, and of the norms."""
    layers = [f"layer{layer}" for layer in range(case.layers)]
    matrices = [f"{layer}.{name}" for layer in layers for name in case.of_layer().matrices()]
    return matrices, ["norm", *(f"{layer}.{name}" for layer in layers for name in NORMS)]


WORKLOAD = LoraStep()
