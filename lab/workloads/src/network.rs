//! Loads on the loopback device: atomic allocations, and orders 1 to 3.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::UnixDatagram;
use std::thread;

/// Bytes in a MiB.
const MIB: usize = 1 << 20;
/// Bytes that a TCP sender writes at once.
const CHUNK: usize = 64 << 10;
/// Datagrams that are sent before the receiver reads.
const BURST: usize = 16;

/// Sends `mib` MiB over each of `streams` TCP connections at once.
pub(crate) fn loopback(mib: usize, streams: usize) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    let senders: Vec<_> = (0..streams)
        .map(|_| {
            thread::spawn(move || -> io::Result<()> {
                let mut stream = TcpStream::connect(address)?;
                let chunk = vec![1_u8; CHUNK];
                for _ in 0..mib * MIB / CHUNK {
                    stream.write_all(&chunk)?;
                }
                Ok(())
            })
        })
        .collect();
    let mut receivers = Vec::new();
    for _ in 0..streams {
        let (stream, _) = listener.accept()?;
        receivers.push(thread::spawn(move || drain(stream)));
    }
    for task in senders.into_iter().chain(receivers) {
        task.join().map_err(|_| io::Error::other("a stream panicked"))??;
    }
    Ok(())
}

/// Reads a stream to its end.
fn drain(mut stream: TcpStream) -> io::Result<()> {
    let mut chunk = vec![0_u8; CHUNK];
    while stream.read(&mut chunk)? > 0 {}
    Ok(())
}

/// Opens `count` connections and sends a few bytes on each before any is closed.
///
/// The accepting side of a connection is allocated in interrupt context, from slabs of order 3. These are the atomic
/// requests above order 0 for which the kernel keeps its high-atomic reserve.
pub(crate) fn connections(count: usize) -> io::Result<()> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let address = listener.local_addr()?;
    let mut open = Vec::with_capacity(2 * count);
    for _ in 0..count {
        let mut near = TcpStream::connect(address)?;
        near.write_all(b"hello")?;
        open.push(near);
        open.push(listener.accept()?.0);
    }
    Ok(())
}

/// Sends `mib` MiB as datagrams of `bytes` bytes, half over UDP and half over a Unix socket, in bursts.
///
/// UDP may drop datagrams that do not fit into the receiver's buffer, so its receiver never waits.
pub(crate) fn datagrams(mib: usize, bytes: usize) -> io::Result<()> {
    let count = mib * MIB / bytes / 2;
    let (datagram, mut received) = (vec![1_u8; bytes], vec![0_u8; bytes]);

    let (sender, receiver) = (UdpSocket::bind("127.0.0.1:0")?, UdpSocket::bind("127.0.0.1:0")?);
    sender.connect(receiver.local_addr()?)?;
    receiver.set_nonblocking(true)?;
    for number in 1..=count {
        sender.send(&datagram)?;
        if number % BURST == 0 {
            while receiver.recv(&mut received).is_ok() {}
        }
    }

    let (unix_sender, unix_receiver) = UnixDatagram::pair()?;
    for _ in 0..count {
        unix_sender.send(&datagram)?;
        unix_receiver.recv(&mut received)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn network_loads_terminate() {
        loopback(1, 2).unwrap();
        connections(4).unwrap();
        datagrams(1, 30_000).unwrap();
    }
}
