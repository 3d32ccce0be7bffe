//! Pages freed by number from a callback, and used after they were freed by value.
use freehold::base::{Order, Pfn};
use freehold::kernel::{Cpu, PageSink, Pages};

fn by_number<H: Cpu>(sink: &PageSink<'_, H>, pfn: Pfn) {
    sink.free_pages(pfn, Order::ZERO);
}

fn by_value<H: Cpu>(sink: &PageSink<'_, H>, pages: Pages<H>) -> Pfn {
    sink.free(pages);
    pages.pfn()
}

fn kept<H: Cpu>(sink: &PageSink<'_, H>) -> PageSink<'static, H> {
    *sink
}

fn main() {}
