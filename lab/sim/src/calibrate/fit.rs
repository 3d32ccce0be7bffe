//! Prices from bills: what each kind of step costs, given how many of each were taken and what they cost together.
//!
//! Least squares of relative errors, without negative prices, by descent along one price after the other. With a
//! handful of prices that converges in no time, and where two prices cannot be told apart it stays where it began: at
//! nothing.

/// Rounds of descent.
const ROUNDS: u32 = 2000;

/// Steps that were taken together, and what they cost.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Bill<const N: usize> {
    /// How many of each kind.
    pub steps: [f64; N],
    /// What they cost together.
    pub cost: f64,
    /// What errors are held against: the cost with what is already known.
    pub whole: f64,
}

impl<const N: usize> Bill<N> {
    /// How far these prices are from explaining it, as a share of the whole.
    pub(super) fn error(&self, prices: &[f64; N]) -> f64 {
        let explained: f64 = self.steps.iter().zip(prices).map(|(count, price)| count * price).sum();
        (explained - self.cost) / self.whole
    }
}

/// The prices that explain the bills best.
pub(super) fn prices<const N: usize>(bills: &[Bill<N>]) -> [f64; N] {
    let mut prices = [0.0; N];
    for _ in 0..ROUNDS {
        (0..N).for_each(|kind| prices[kind] = best(bills, &prices, kind));
    }
    prices
}

/// The best price of one kind when the others stand.
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
    fn prices_are_found_again() {
        let known = [15.0, 3.0, 4.0];
        let bills = [[1.0, 2.0, 1.0], [1.0, 120.0, 63.0], [2.0, 5.0, 0.0], [1.0, 0.0, 30.0]].map(|s| bill(s, known));
        let found = prices(&bills);
        assert!(found.iter().zip(known).all(|(found, known)| (found - known).abs() < 0.01), "{found:?}");
    }

    #[test]
    fn no_price_is_negative_and_what_never_happened_costs_nothing() {
        let mut bills = [[1.0, 1.0, 0.0], [2.0, 1.0, 0.0]].map(|steps| bill(steps, [5.0, 1.0, 0.0]));
        bills[1].cost = 3.0;
        let found = prices(&bills);
        assert!(found.iter().all(|&price| price >= 0.0) && found[2] == 0.0, "{found:?}");
    }
}
