"""Products of matrices with vectors and with blocks of vectors, in vector instructions.

Sums stay in registers, which a loop that stores them in an array cannot do: the compiler would have to know that the
arrays do not overlap. LANES numbers are added at a time; processors with shorter vectors take several of them. Every
sum runs over its terms in order, whatever stands beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8
DOUBLE, WORD = ir.DoubleType(), ir.IntType(64)
VECTOR = ir.VectorType(DOUBLE, LANES)
tools: Any = cgutils
FUSED = ("contract",)  # a product and a sum may be rounded once


def _data(context: Any, builder: Any, kind: Any, array: Any) -> Any:
    """The address of the first number of an array."""
    return context.make_array(kind)(context, builder, array).data


def _broadcast(builder: Any, number: Any) -> Any:
    undefined = ir.Constant(VECTOR, ir.Undefined)
    first = builder.insert_element(undefined, number, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, undefined, ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES))


def _vector_at(builder: Any, address: Any, place: Any) -> Any:
    """The address of the vector that begins at a place; numbers are aligned, vectors need not be."""
    return builder.bitcast(builder.gep(address, [place]), VECTOR.as_pointer())


def _sums(builder: Any, begin: list[Any], count: Any, terms: Callable[[Any], list[tuple[Any, Any]]]) -> list[Any]:
    """The vectors that begin with some values and add a product each for every index below a count."""
    sums = [tools.alloca_once_value(builder, value) for value in begin]
    with tools.for_range(builder, count, intp=WORD) as loop:
        for total, (a, b) in zip(sums, terms(loop.index), strict=True):
            builder.store(builder.fadd(builder.load(total), builder.fmul(a, b, flags=FUSED), flags=FUSED), total)
    return [builder.load(total) for total in sums]


def _times_activations(vectors: int) -> Callable[..., None]:
    """`out[q : q + vectors * LANES]` = the same part of `begin` + the activations times the matrix in `weights`, whose
    rows of `stride` numbers begin at `at`. The activations are `values` where `side` is positive, else `leak` times as
    large."""

    @intrinsic
    def product(
        typing: Any, out: Any, q: Any, begin: Any, values: Any, side: Any, leak: Any, weights: Any, at: Any, stride: Any
    ) -> Any:
        signature = types.void(out, types.int64, begin, values, side, types.float64, weights, types.int64, types.int64)

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kinds, (_, first, _, given, _, slope, _, start, row) = signature.args, args
            data = [_data(context, builder, kinds[k], args[k]) for k in (0, 2, 3, 4, 6)]
            steps = [builder.add(first, WORD(LANES * v)) for v in range(vectors)]
            count = context.make_array(kinds[3])(context, builder, given).nitems

            def terms(u: Any) -> list[tuple[Any, Any]]:
                value, beside = (builder.load(builder.gep(data[k], [u])) for k in (2, 3))
                is_on = builder.fcmp_ordered(">", beside, DOUBLE(0.0))
                active = _broadcast(builder, builder.select(is_on, value, builder.fmul(slope, value)))
                line = builder.add(start, builder.mul(u, row))
                places = [_vector_at(builder, data[4], builder.add(line, step)) for step in steps]
                return [(active, builder.load(place, align=8)) for place in places]

            begun = [builder.load(_vector_at(builder, data[1], step), align=8) for step in steps]
            for step, total in zip(steps, _sums(builder, begun, count, terms), strict=True):
                builder.store(total, _vector_at(builder, data[0], step), align=8)
            return context.get_dummy_value()

        return signature, codegen

    return cast(Callable[..., None], product)


def _times_block(rows: int, vectors: int) -> Callable[..., None]:
    """Some rows of `out` (units, columns) from row q on, in `vectors * LANES` columns from column c on: the biases from
    place b on + the transposed matrix in `weights`, whose rows of `stride` numbers begin at `at`, times the first
    `count` rows of `active` (units, columns)."""

    @intrinsic
    def product(
        typing: Any, out: Any, q: Any, c: Any, biases: Any, b: Any, active: Any, count: Any, weights: Any, at: Any,
        stride: Any,
    ) -> Any:  # fmt: skip
        signature = types.void(
            out, types.int64, types.int64, biases, types.int64, active, types.int64, weights, types.int64, types.int64
        )

        def codegen(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            kinds, (given, first, column, _, bias, _, terms_of, _, start, row) = signature.args, args
            data = [_data(context, builder, kinds[k], args[k]) for k in (0, 3, 5, 7)]
            width = builder.extract_value(context.make_array(kinds[0])(context, builder, given).shape, 1)
            steps = [builder.add(column, WORD(LANES * v)) for v in range(vectors)]

            def terms(u: Any) -> list[tuple[Any, Any]]:
                line, weight = builder.mul(u, width), builder.add(start, builder.mul(u, row))
                columns = [builder.load(_vector_at(builder, data[2], builder.add(line, s)), align=8) for s in steps]
                places = [builder.gep(data[3], [builder.add(weight, WORD(r))]) for r in range(rows)]
                factors = [_broadcast(builder, builder.load(place)) for place in places]
                return [(factor, values) for factor in factors for values in columns]

            places = [builder.gep(data[1], [builder.add(bias, WORD(r))]) for r in range(rows)]
            begun = [_broadcast(builder, builder.load(place)) for place in places for _ in steps]
            totals = iter(_sums(builder, begun, terms_of, terms))
            for r in range(rows):
                line = builder.mul(builder.add(first, WORD(r)), width)
                for step in steps:
                    builder.store(next(totals), _vector_at(builder, data[0], builder.add(line, step)), align=8)
            return context.get_dummy_value()

        return signature, codegen

    return cast(Callable[..., None], product)


times_activations_2, times_activations_4 = _times_activations(2), _times_activations(4)
times_block, times_block_4 = _times_block(1, 2), _times_block(4, 2)
COLUMNS = 2 * LANES  # of a block that are computed together
