//! Fit of unit costs: the cost of each kind of step, from the number of steps of each kind and their total cost.
//!
//! The fit minimises the squares of relative errors, without negative costs, by coordinate descent. For a few costs
//! this converges quickly. Where two costs cannot be distinguished, a cost stays at its initial value, zero.

/// Rounds of descent.
const ROUNDS: u32 = 2000;

/// Number of steps in a measurement, and their total cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bill<const N: usize> {
    /// Number of steps of each kind.
    pub steps: [f64; N],
    /// Total cost of the steps.
    pub cost: f64,
    /// Denominator of relative errors: the cost including the parts that are known already.
    pub whole: f64,
}

impl<const N: usize> Bill<N> {
    /// Returns the error of these unit costs for the bill, relative to its `whole`.
    pub(super) fn error(&self, prices: &[f64; N]) -> f64 {
        let explained: f64 = self.steps.iter().zip(prices).map(|(count, price)| count * price).sum();
        (explained - self.cost) / self.whole
    }
}

/// Returns the unit costs that fit the bills best.
pub(super) fn prices<const N: usize>(bills: &[Bill<N>]) -> [f64; N] {
    let mut prices = [0.0; N];
    for _ in 0..ROUNDS {
        (0..N).for_each(|kind| prices[kind] = best(bills, &prices, kind));
    }
    prices
}

/// Returns the best cost of one kind, given the costs of the others.
fn best<const N: usize>(bills: &[Bill<N>], prices: &[f64; N], kind: usize) -> f64 {
    let (mut product, mut square) = (0.0, 0.0);
    for bill in bills {
        let others: f64 = (0..N).filter(|&other| other != kind).map(|other| bill.steps[other] * prices[other]).sum();
        let steps = bill.steps[kind] / bill.whole;
        product += steps * (bill.cost - others) / bill.whole;
        square += steps * steps;
    }
    if square > 0.0 { (product / square).max(0.0) } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bill(steps: [f64; 3], prices: [f64; 3]) -> Bill<3> {
        let cost = steps.iter().zip(prices).map(|(count, price)| count * price).sum();
        Bill { steps, cost, whole: cost + 1.0 }
    }

    #[test]
    fn fit_recovers_known_prices() {
        let known = [15.0, 3.0, 4.0];
        let bills = [[1.0, 2.0, 1.0], [1.0, 120.0, 63.0], [2.0, 5.0, 0.0], [1.0, 0.0, 30.0]].map(|s| bill(s, known));
        let found = prices(&bills);
        assert!(found.iter().zip(known).all(|(found, known)| (found - known).abs() < 0.01), "{found:?}");
    }

    #[test]
    fn fitted_prices_are_nonnegative_and_unused_are_zero() {
        let mut bills = [[1.0, 1.0, 0.0], [2.0, 1.0, 0.0]].map(|steps| bill(steps, [5.0, 1.0, 0.0]));
        bills[1].cost = 3.0;
        let found = prices(&bills);
        assert!(found.iter().all(|&price| price >= 0.0) && found[2] == 0.0, "{found:?}");
    }
}
