"""Shares of shifts learned from the times of day of orders, partially pooled over weekdays and
depots.

A depot's share of a shift on a weekday is a credibility estimate (Bühlmann 1967), with Z(n, k) = n
/ (n + k) for n days:

    network        p      = orders of the shift / all orders, over all depots and days; p_w on a weekday
    depot          p_d    = Z(n_d, 7) · own share on its n_d days + (1 - Z) · p
    depot, weekday p_dw   = Z(n_dw, 4) · own share on its n_dw such days + (1 - Z) · (p_d · p_w / p, normalized)

so that seven days of a depot weigh as much as the network, and four Mondays as much as the
expectation from its other days and the network's Mondays. Own shares are of all orders of those
days together. A depot with fewer than `FEW_DAYS` days takes the network's share of the weekday, and
if no time of day is known at all, shifts share the day in proportion to their hours. All are
averages of shares, or normalized, and therefore sum to 1.
"""

from __future__ import annotations

from datetime import date

import numpy as np

from forecaster.config import Staffing
from forecaster.core.arrays import Bools, Doubles, Ints
from forecaster.staffing.shift_values import FEW_DAYS, ShiftShares

DEPOT_DAYS, WEEKDAY_DAYS = 7, 4  # k of Z: for all days of a depot, and for its days of a weekday


def of_hours(staffing: Staffing, depots: int) -> ShiftShares:
    """Shares in proportion to the shifts' hours, with nothing learned."""
    minutes = np.array([shift.minutes for shift in staffing.shifts], float)
    shares = np.broadcast_to((minutes / minutes.sum())[:, None, None], (len(minutes), depots, 7)).copy()
    return ShiftShares(shares, np.zeros((depots, 7), np.int32))


def pooled(counts: Doubles, is_known: Bools, first: date, staffing: Staffing) -> ShiftShares:
    """Shares from orders by shift (shifts, depots, days) on the known days (depots, days), from
    `first` on."""
    counts = np.where(is_known & (counts.sum(axis=0) > 0), counts, 0.0)
    taught = counts.sum(axis=0) > 0
    if not taught.any():
        return of_hours(staffing, is_known.shape[0])
    weekday = (first.weekday() + np.arange(is_known.shape[1])) % 7
    by_weekday = np.stack([counts[:, :, weekday == day].sum(axis=2) for day in range(7)], axis=-1)
    days = np.stack([taught[:, weekday == day].sum(axis=1) for day in range(7)], axis=-1).astype(np.int32)
    network = _normed(counts.sum(axis=(1, 2)))[:, None]
    of_network = _normed(by_weekday.sum(axis=1))
    usual = np.divide(of_network, network, out=np.ones_like(of_network), where=(network > 0) & (days.sum(axis=0) > 0))
    depot = _blend(by_weekday.sum(axis=2), days.sum(axis=1), DEPOT_DAYS, network)
    enough = days.sum(axis=1) >= FEW_DAYS
    depot = np.where(enough, depot, network)
    expected = _normed(depot[:, :, None] * usual[:, None, :])
    of_weekday = _blend(by_weekday, days, WEEKDAY_DAYS, expected)
    return ShiftShares(np.where(enough[:, None], of_weekday, expected), days)


def _blend(orders: Doubles, days: Ints, usual_days: int, towards: Doubles) -> Doubles:
    """Z · own share + (1 - Z) · prior share; shifts are the first axis."""
    trust = days / (days + usual_days)
    blended: Doubles = trust * _normed(orders) + (1 - trust) * towards
    return blended


def _normed(orders: Doubles) -> Doubles:
    """Shares over shifts, the first axis; 0 if there were no orders."""
    total = orders.sum(axis=0)
    shares: Doubles = np.divide(orders, total, out=np.zeros_like(orders), where=total > 0)
    return shares
