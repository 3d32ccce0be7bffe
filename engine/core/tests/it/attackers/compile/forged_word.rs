//! A frame's state written from outside, and a word made of thin air.
use freehold::base::word::Word;
use freehold::base::{Frame, Order};

fn attack(frame: &Frame) {
    frame.set(Word::RESERVED);
    let _ = frame.claim(frame.word(), Word::allocated(Order::ZERO));
}

fn main() {}
