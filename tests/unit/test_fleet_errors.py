"""What the errors of a fleet request mean."""

from __future__ import annotations

import pytest

from dovetail.base.errors import CreateFailed, InsufficientCapacity
from dovetail.cloud.aws.instance.fleet_errors import NO_CAPACITY, NO_SPOT_ROLE, FleetError, failure, refusals


def error(
    code: str, kind: str = "m5.large", *, capacity_type: str = "spot", message: str = "m"
) -> FleetError:
    return FleetError(code, message, capacity_type, kind, "a", "subnet-a")


@pytest.mark.parametrize("code", sorted(NO_CAPACITY))
def test_out_of_capacity(code: str) -> None:
    found = refusals([error(code), error(code)])
    full = code == "ReservationCapacityExceeded"
    assert (found.full if full else found.pools) == (("spot", "m5.large", "a"),)
    assert not (found.pools if full else found.full)
    assert found.subnets == (("subnet-a",) if code == "InsufficientFreeAddressesInSubnet" else ())
    assert not found.no_spot
    assert isinstance(failure([error(code)]), InsufficientCapacity)


def test_a_price_that_is_too_low_and_a_reservation_that_ends_are_no_capacity() -> None:
    for code in ("SpotMaxPriceTooLow", "InvalidCapacityReservationState.Unavailable"):
        assert isinstance(failure([error(code)]), InsufficientCapacity)


def test_no_role_for_spot() -> None:
    errors = [error(NO_SPOT_ROLE, "m5.large"), error(NO_SPOT_ROLE, "c5.large")]
    assert refusals(errors).no_spot
    assert refusals(errors).pools == ()
    assert isinstance(failure(errors), InsufficientCapacity)


def test_another_error_is_tried_again() -> None:
    found = failure([error("InsufficientInstanceCapacity"), error("UnauthorizedOperation")])
    assert isinstance(found, CreateFailed)
    assert found.reason == "UnauthorizedOperation"
    assert refusals([error("UnauthorizedOperation")]).pools == ()


def test_a_subnet_is_avoided_only_where_the_error_names_it() -> None:
    unnamed = FleetError("InsufficientFreeAddressesInSubnet", "m", "spot", "m5.large", "a")
    assert refusals([unnamed]).subnets == ()


def test_spot_is_avoided_only_for_errors_about_spot() -> None:
    assert NO_SPOT_ROLE == "AuthFailure.ServiceLinkedRoleCreationNotPermitted"  # EC2's name for it
    assert not refusals([error(NO_SPOT_ROLE, capacity_type="on-demand")]).no_spot


@pytest.mark.parametrize(
    ("number", "ending"),
    [(1, "Unsupported: 0"), (5, "Unsupported: 4"), (6, "Unsupported: 4; and 1 more"), (8, "; and 3 more")],
)
def test_five_errors_are_spelled_out(number: int, ending: str) -> None:
    errors = [error("Unsupported", message=str(which)) for which in range(number)]
    assert str(failure(errors)).endswith(ending)


def test_an_answer_with_neither_instance_nor_error() -> None:
    found = failure([])
    assert isinstance(found, CreateFailed)
    assert (str(found), found.reason) == ("no instance was launched", "LaunchFailed")


def test_each_different_error_is_reported_once() -> None:
    errors = [error("Unsupported", message=str(number % 7)) for number in range(20)]
    assert str(failure(errors)).startswith("with fleet error(s), Unsupported: 0; Unsupported: 1; ")
    assert str(failure(errors)).endswith("Unsupported: 4; and 2 more")
