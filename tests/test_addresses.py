"""Regions never overlap and holes always merge, whatever is taken and given back."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from lab.addresses import Addresses, Fit, power_of_two


def check_books(addresses: Addresses, regions: list[range]) -> None:
    """Regions and holes cover every slot once; no two holes touch."""
    parts = sorted([*addresses.holes, *regions], key=lambda part: part.start)
    assert [slot for part in parts for slot in part] == list(range(addresses.slots))
    assert all(one.stop < other.start for one, other in pairwise(addresses.holes))
    assert all(addresses.holes)
    assert addresses.free + sum(map(len, regions)) == addresses.slots


class AnyUseOfTheAddresses(RuleBasedStateMachine):
    """A model that knows only which slots are taken, as a set of numbers."""

    @initialize(slots=st.integers(1, 40), fit=st.sampled_from(("first", "best", "buddy")))
    def begin(self, slots: int, fit: Fit) -> None:
        self.addresses = Addresses(slots, fit)
        self.regions: list[range] = []

    @rule(count=st.integers(1, 20), data=st.data())
    def take(self, count: int, data: st.DataObject) -> None:
        at = data.draw(st.one_of(st.none(), st.integers(0, self.addresses.slots)))
        size = self.addresses.size(count)
        fits = self.starts(size)
        region = self.addresses.take(count, at)
        if region is None:
            assert fits == []
        else:
            assert len(region) == size >= count
            assert region.start in fits
            if at in fits:
                assert region.start == at
            elif self.addresses.fit != "best":
                assert region.start == fits[0]
            self.regions.append(region)

    def starts(self, size: int) -> list[int]:
        """Every slot at which a region of this size might begin, found slot by slot."""
        taken = {slot for region in self.regions for slot in region}
        every = size if self.addresses.fit == "buddy" else 1
        return [
            start
            for start in range(0, self.addresses.slots - size + 1, every)
            if taken.isdisjoint(range(start, start + size))
        ]

    @precondition(lambda self: self.regions)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        region = data.draw(st.sampled_from(self.regions))
        self.addresses.release(region)
        self.regions.remove(region)
        with pytest.raises(ValueError, match="was released, and nobody holds it"):
            self.addresses.release(region)

    @invariant()
    def books_balance(self) -> None:
        check_books(self.addresses, self.regions)

    def teardown(self) -> None:
        for region in getattr(self, "regions", ()):
            self.addresses.release(region)
        if hasattr(self, "addresses"):
            assert self.addresses.holes == [range(self.addresses.slots)]


TestAnyUse = AnyUseOfTheAddresses.TestCase


def with_holes(fit: Fit) -> Addresses:
    """16 slots with holes from 1 to 4, at 6, and from 8 to 10."""
    addresses = Addresses(16)
    regions = [addresses.take(count) for count in (1, 4, 1, 1, 1, 3, 5)]
    for place in (1, 3, 5):
        region = regions[place]
        assert region is not None
        addresses.release(region)
    addresses.fit = fit
    assert addresses.holes == [range(1, 5), range(6, 7), range(8, 11)]
    return addresses


@pytest.mark.parametrize(
    ("fit", "count", "region"),
    [
        ("first", 3, range(1, 4)),
        ("best", 3, range(8, 11)),
        ("best", 1, range(6, 7)),
        ("best", 4, range(1, 5)),
        ("buddy", 2, range(2, 4)),
        ("buddy", 4, None),
        ("first", 5, None),
    ],
)
def test_where_a_region_goes(fit: Fit, count: int, region: range | None) -> None:
    assert with_holes(fit).take(count) == region


def test_a_region_between_two_holes_makes_one_of_three() -> None:
    addresses = Addresses(9)
    first, middle, last = (addresses.take(3) for _ in range(3))
    assert first is not None
    assert middle is not None
    assert last is not None
    addresses.release(first)
    addresses.release(last)
    assert addresses.holes == [range(3), range(6, 9)]
    addresses.release(middle)
    assert addresses.holes == [range(9)]


def test_best_fit_takes_the_lowest_of_the_smallest_holes() -> None:
    @given(st.lists(st.integers(1, 6), min_size=1, max_size=8), st.integers(1, 6), st.data())
    def holds(counts: list[int], count: int, data: st.DataObject) -> None:
        addresses = Addresses(50, "best")
        regions = [region for each in counts if (region := addresses.take(each))]
        for region in data.draw(st.lists(st.sampled_from(regions), unique=True)):
            addresses.release(region)
        holes = [hole for hole in addresses.holes if len(hole) >= count]
        region = addresses.take(count)
        smallest = min(holes, key=lambda hole: (len(hole), hole.start), default=None)
        assert (region and region.start) == (smallest and smallest.start)

    holds()


class Overlapping(Addresses):
    """First fit that forgets how long a hole is."""

    def _places(self, size):
        return ((len(hole), hole.start) for hole in self.holes)


def test_a_first_fit_that_forgets_how_long_a_hole_is_would_be_found() -> None:
    broken = Overlapping(8)
    regions = [region for _ in range(3) if (region := broken.take(3))]
    with pytest.raises(AssertionError):
        check_books(broken, regions)


class Leaving(Addresses):
    """Holes that never merge."""

    def release(self, region):
        self._taken.remove(region)
        self.holes = sorted([*self.holes, region], key=lambda hole: hole.start)


def test_holes_that_never_merge_would_be_found() -> None:
    broken = Leaving(4)
    for region in (broken.take(2), broken.take(2)):
        assert region
        broken.release(region)
    with pytest.raises(AssertionError):
        check_books(broken, [])


@pytest.mark.parametrize(("count", "power"), [(0, 0), (1, 1), (2, 2), (3, 4), (25, 32), (32, 32)])
def test_the_next_power_of_two(count: int, power: int) -> None:
    assert power_of_two(count) == power


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="slots must be at least 1, got 0"):
        Addresses(0)
    with pytest.raises(ValueError, match="fit must be one of first, best, buddy, got 'worst'"):
        Addresses(4, "worst")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="a region must have at least 1 slot, got 0"):
        Addresses(4).take(0)
    with pytest.raises(ValueError, match="the region from slot 0 to 1 was released, and nobody"):
        Addresses(4).release(range(2))
