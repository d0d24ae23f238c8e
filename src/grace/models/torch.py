"""Any `torch.nn.Module` as a model: evaluated in float64 where it can be, never changed."""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import is_
from typing import Any

import torch
from torch import Tensor, nn

from grace.errors import GraceError
from grace.models.base import Margins, Model
from grace.models.checking import SUM, Origin, check_sums
from grace.models.network import Layout, Network, Snapshot, is_plain
from grace.models.one_hot import OneHot
from grace.models.preprocessing.inputs import TransformedInputs
from grace.models.threshold import Cutoffs, cutoffs_of
from grace.schema.features import Floats, Value, plain
from grace.schema.schema import Schema

Encode = Callable[[Tensor], Tensor]

TINY = 1e-300
OUTPUTS = ("logits", "probabilities")
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-4}  # the margin in units of the module's own precision
COARSE_TOLERANCE, COARSE_SUM = 1e-2, 2e-2
ENOUGH = 50  # rows after which a single output that stays within 0 and 1 is taken for a probability


class TorchModel(Model):
    """A module with logits, probabilities or a single logit per row.

    It is read with its parameters cast to float64, so that a row's answer does not depend on its
    batch; a module that cannot run so is read as it is. Its mode, device and dtype stay as they are.
    """

    def __init__(
        self,
        module: nn.Module,
        classes: Sequence[Value],
        *,
        encode: Encode | None = None,
        outputs: str | None = None,
        schema: Schema | None = None,
        task: str = "classification",
    ) -> None:
        self.module, self.name = module, f"the {type(module).__name__}"
        self.task = task
        if isinstance(classes, str) or not isinstance(classes, Iterable):
            raise GraceError(f"classes={classes!r}: give a list with the name of each class")
        self.classes = tuple(plain(c) for c in classes)
        self.schema = schema
        self.encode = encode
        self.outputs = outputs
        if len(self.classes) < 2 and task != "regression":
            raise GraceError(f"classes={list(classes)!r}: a contrast needs at least two classes")
        if len(set(self.classes)) != len(self.classes):
            raise GraceError(f"classes={list(classes)!r}: a class is listed twice")
        if outputs is not None and outputs not in OUTPUTS:
            raise GraceError(f"outputs={outputs!r} is unknown; use one of {', '.join(map(repr, OUTPUTS))}")
        first = next((t for t in (*module.parameters(), *module.buffers()) if t.is_floating_point()), None)
        native = torch.float64 if first is None else first.dtype
        self.device = torch.device("cpu") if first is None else first.device
        self.tolerance = TOLERANCE.get(native, COARSE_TOLERANCE)
        self._native = native
        self._compute = torch.float64
        self._seen = False
        self._cast: dict[str, Tensor] | None = None
        self.reads_layers = True  # where they are plain; see `grace.models.network`
        self.origin: Origin | None = None  # the model that the module was made from
        self.layout: Layout | None = None  # of a network of ours that can be read directly
        self.cache: dict[str, Any] = {}  # what others have made of the weights, until `refresh` finds them changed
        self._read: tuple[Any, ...] = ()  # attributes when the module was last read,
        self._snapshot: Snapshot | None = None  # and the module itself

    # -- scores and slopes --------------------------------------------------------------------

    def scores(self, rows: Tensor) -> Tensor:
        if not self._seen:
            self._look(rows)
        if self.layout is not None:
            return self.layout.scores(rows)
        return self.own_scores(rows)

    def own_scores(self, rows: Tensor) -> Tensor:
        """The scores by the module itself, whatever was read off its layers."""
        with torch.no_grad(), self._reading():
            return self._as_scores(self._raw(rows, None))

    def slopes(self, rows: Tensor, margins: Margins, moving: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if not self._seen:
            self._look(rows)
        if self.layout is not None:
            return self.layout.slopes(rows, margins)
        x = rows.detach().requires_grad_(True)
        inputs, shift = [x], None
        own = bool(self.vectors())
        if own:
            width = sum(v.shape[1] for v in self.vectors().values())
            shift = torch.zeros(len(rows), width, dtype=x.dtype, device=x.device, requires_grad=True)
            inputs.append(shift)
        with torch.enable_grad(), self._reading():
            scores = self._as_scores(self._raw(x, shift))
            values = margins(scores)
            if not values.requires_grad and len(self._categories()) == rows.shape[1]:
                values = values + 0 * x.sum()  # nothing but categories: there is no slope to take
            if not values.requires_grad:
                raise GraceError(
                    "no gradient reaches the rows: `encode` and the module must be torch operations throughout"
                )
            grads = []
            for a in range(values.shape[1]):
                usable = torch.isfinite(values[:, a]).to(values.dtype)
                found = torch.autograd.grad(
                    values[:, a], inputs, usable, retain_graph=a + 1 < values.shape[1], allow_unused=True
                )
                parts = [torch.zeros_like(i) if g is None else g for g, i in zip(found, inputs, strict=True)]
                grads.append(parts)
        numeric = self._numeric(rows)
        slopes = torch.stack([torch.cat([g[0][:, numeric], *g[1:]], dim=1) for g in grads], dim=1)
        if not own:
            slopes = self._with_category_differences(rows, values.detach(), slopes, margins, moving)
        return scores.detach(), slopes

    @property
    def analytic_gradients(self) -> bool:
        return self.layout is not None

    def _direct(self) -> Layout | None:
        """The layout of a network of ours that takes rows as they are, and that nobody listens to."""
        module = self.module
        if not isinstance(module, Network) or not self.plain or module.layers[-1].out_features != self.width:
            return None
        if self._native != torch.float64 or self.outputs != "logits":
            return None
        return module.layout(detached=True, shift=self.shift)

    @property
    def plain(self) -> bool:
        """Whether the scores are what the layers of the module say, so that they can be read off."""
        return self.encode is None and self.has_plain_layers

    @property
    def has_plain_layers(self) -> bool:
        """Whether the module computes what its layers say, of rows that `encode` may have scaled."""
        return self.reads_layers and is_plain(self.module)

    @property
    def network(self) -> Network | None:
        """The module, if it is a network such as `grace.training.fit` makes, and nothing but that."""
        return self.module if isinstance(self.module, Network) and self.plain else None

    def vectors(self) -> Mapping[int, Tensor]:
        module = self.module
        return module.vectors() if type(module) is Network and "forward" not in vars(module) else {}

    def _numeric(self, rows: Tensor) -> list[int]:
        categorical = set(self._categories())
        return [j for j in range(rows.shape[1]) if j not in categorical]

    def _categories(self) -> dict[int, int]:
        if self.schema is None:
            return {}
        return {j: len(f.categories) for j, f in enumerate(self.schema.features) if hasattr(f, "categories")}

    def _with_category_differences(
        self, rows: Tensor, values: Tensor, slopes: Tensor, margins: Margins, moving: Tensor | None
    ) -> Tensor:
        """One-hot coordinates for categories without learnt vectors: the slope of a category is what
        the margin gains when the row takes it."""
        parts = [slopes]
        for j, count in self._categories().items():
            ask = torch.arange(len(rows), device=rows.device) if moving is None else moving[:, j].nonzero()[:, 0]
            part = slopes.new_zeros(len(rows), values.shape[1], count)
            if len(ask):
                tried = []
                for code in range(count):
                    other = rows.clone()
                    other[:, j] = code
                    tried.append(margins(self.scores(other))[ask])
                gain = torch.stack(tried, dim=2) - values[ask][:, :, None]
                part[ask] = torch.where(torch.isfinite(gain), gain, 0.0)
            parts.append(part)
        return torch.cat(parts, dim=2)

    def on(self, device: torch.device) -> TorchModel:
        """The model on a device; the module itself stays where it is."""
        if device == self.device:
            return self
        other = self._again()
        other.module, other.device = copy.deepcopy(self.module).to(device), device
        return other

    def with_threshold(self, threshold: Any) -> Model:
        if (
            not self.has_probabilities and self.origin is not None
        ):  # its own probabilities, if it has any, are not those of the layers
            return self.origin.black_box(None).with_threshold(threshold)
        self.check_probabilities("threshold=")
        if self.task != "classification":
            raise GraceError(f"threshold= is about the probabilities of classes; leave it out for a {self.task}")
        return self.with_cutoffs(cutoffs_of(threshold, self.classes))

    def with_cutoffs(self, cutoffs: Cutoffs | None) -> TorchModel:
        other = self._again()
        other.cutoffs = cutoffs
        return other

    def without_layers(self) -> Model:
        """The module by its own scores alone; a model that was turned into layers, by its answers alone."""
        if self.origin is not None:
            behind = self.origin.black_box(self.cutoffs)
            behind.subject, behind.file = self.subject, self.file
            return behind
        other = self._again()
        other.reads_layers = False
        return other

    def unread(self, rows: Floats, schema: Schema) -> str:
        known = self.encode.known if isinstance(self.encode, TransformedInputs) else None
        return "" if known is None else known.check(rows, schema)

    def behind(self, encode: Any, schema: Schema, module: nn.Module | None = None) -> TorchModel:
        """The same module, or another, on rows of another schema."""
        other = self._again()
        other.encode, other.schema, other.module = encode, schema, module or self.module
        return other

    def _again(self) -> TorchModel:
        """A copy that has read nothing of the module yet."""
        other = copy.copy(self)
        other._seen, other._cast, other.layout, other.cache = False, None, None, {}
        other._read, other._snapshot = (), None
        return other

    # -- reading the module -------------------------------------------------------------------

    @contextmanager
    def _reading(self) -> Iterator[None]:
        training = [m for m in self.module.modules() if m.training]
        for m in training:
            m.training = False
        try:
            yield
        finally:
            for m in training:
                m.training = True

    def _raw(self, rows: Tensor, shift: Tensor | None, compute: torch.dtype | None = None) -> Tensor:
        compute = compute or self._compute
        inputs = rows if self.encode is None else self.encode(rows)
        if not isinstance(inputs, Tensor):
            raise GraceError(f"`encode` returned {type(inputs).__name__}; it must map a tensor of rows to a tensor")
        if inputs.is_floating_point():
            inputs = inputs.to(compute)
        args = (inputs,) if shift is None else (inputs, shift)
        if self._native == compute:
            out = self.module(*args)
        else:
            out = torch.func.functional_call(self.module, self._cast_state(), args)
        if not isinstance(out, Tensor):
            raise GraceError(f"the module returned {type(out).__name__}; it must return one tensor of scores")
        return out.to(torch.float64)

    def _cast_state(self) -> dict[str, Tensor]:
        """Parameters and buffers in float64, kept until `refresh`."""
        if self._cast is None:
            state = {**dict(self.module.named_parameters()), **dict(self.module.named_buffers())}
            self._cast = {k: t.detach().double() if t.is_floating_point() else t for k, t in state.items()}
        return self._cast

    def fingerprint(self) -> str:
        digest = hashlib.sha256()
        for name, value in self.module.state_dict().items():
            digest.update(name.encode())
            digest.update(value.detach().cpu().double().numpy().tobytes())
        if isinstance(self.encode, TransformedInputs):
            digest.update(repr(self.encode.functions).encode())
        if self.cutoffs is not None:
            digest.update(repr(self.cutoffs.shifts).encode())
        return digest.hexdigest()

    def refresh(self) -> None:
        """Read the module anew, unless its layers are plain and none has changed."""
        # any other function may change what it does
        fixed = self.encode is None or isinstance(self.encode, OneHot | TransformedInputs)
        plain = fixed and self.has_plain_layers
        read = (self.module, self.schema, self.outputs, self.cutoffs, self.encode)
        known = self._snapshot if plain and all(map(is_, read, self._read)) else None
        if known is not None and known.holds(self.module):
            return
        self._cast, self.layout = None, self._direct()
        self.cache.clear()
        self._read, self._snapshot = read, Snapshot(self.module) if plain else None

    def _as_scores(self, out: Tensor) -> Tensor:
        if out.dim() == 1:
            out = out[:, None]
        if out.dim() != 2:
            raise GraceError(f"the module returned shape {tuple(out.shape)}; it must return (rows, classes)")
        probabilities = self.outputs == "probabilities"
        if out.shape[1] == 1 and len(self.classes) == 2:
            out = torch.cat([1 - out if probabilities else torch.zeros_like(out), out], dim=1)
        scores = out.clamp_min(TINY).log() if probabilities else out
        shift = self.shift
        return scores if shift is None else scores - shift

    # -- meeting the data ---------------------------------------------------------------------

    def bind(self, schema: Schema, rows: Tensor) -> None:
        """Look at sample rows first: the columns are learnt only if the module fits them."""
        self._look(rows)
        super().bind(schema, rows)

    def _look(self, rows: Tensor) -> None:
        """Find out in which precision the module can be read and what its outputs are; complain where
        they do not fit the classes."""
        out, compute = self._first_reading(rows)
        columns = 1 if out.dim() == 1 else out.shape[-1] if out.dim() else 0
        fits = columns == self.width or (columns == 1 and len(self.classes) == 2)
        if out.dim() not in (1, 2) or len(out) != len(rows) or not fits:
            if self.task == "regression":
                raise GraceError(
                    f"the module returned shape {tuple(out.shape)} for {len(rows)} rows; give it one output"
                )
            raise GraceError(
                f"the module returned shape {tuple(out.shape)} for {len(rows)} rows, but classes= names "
                f"{len(self.classes)} classes; give one class per output (or two classes for a single logit)"
            )
        if self.outputs is None and self.task == "regression":
            self.outputs = "logits"
        slack = SUM if compute in TOLERANCE else COARSE_SUM
        shares = False  # whether the outputs look like probabilities, though they were not said to be
        if self.outputs is None:
            inside = bool(((out >= 0) & (out <= 1)).all())
            if columns == 1 and inside and len(rows) < ENOUGH:
                raise GraceError(
                    f"{len(rows)} rows do not tell whether the single output is a logit or a probability; "
                    "pass outputs='logits' or outputs='probabilities' to wrap"
                )
            sums = out.reshape(len(out), -1).sum(dim=1)
            certain = columns == 1 or bool(((sums - 1).abs() <= slack).all())
            self.outputs = "probabilities" if inside and certain else "logits"
            shares = inside and len(rows) >= ENOUGH
        if columns > 1 and (self.outputs == "probabilities" or shares):
            self.no_probabilities_because = check_sums(out.cpu().numpy(), self.name, slack)
        if self.cutoffs is not None and self.cutoffs.named:
            self.check_probabilities("threshold=")
        self._compute, self._seen, self.layout = compute, True, self._direct()

    def _first_reading(self, rows: Tensor) -> tuple[Tensor, torch.dtype]:
        """The raw outputs, and the precision they were computed in: float64, or the module's own where
        it casts inside."""
        reasons = []
        for compute in dict.fromkeys((torch.float64, self._native)):
            try:
                with torch.no_grad(), self._reading():
                    return self._raw(rows, None, compute), compute
            except GraceError:
                raise
            except Exception as reason:  # whatever a user's module raises becomes one clear line
                reasons.append(reason)
        line = str(reasons[-1]).strip().split("\n")[0]
        raise GraceError(
            f"the module failed on {len(rows)} rows of {rows.shape[1]} features: {line}; check `encode` and the columns"
        ) from reasons[-1]
