#!/bin/sh
# Java under the malloc: the compiler and the virtual machine, threads, and memory outside of its own heap.
set -eu

cat >Program.java <<'END'
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.*;
import java.util.stream.*;
import java.util.zip.*;

public class Program {
    static long work(int seed) {
        CRC32 sum = new CRC32();
        for (int n = 0; n < 50; n++) {
            ByteBuffer buffer = ByteBuffer.allocateDirect(1000 + n * 331);
            while (buffer.remaining() >= 8) buffer.putLong(seed * 31L + buffer.position());
            Deflater deflater = new Deflater();
            deflater.setInput(buffer.flip());
            deflater.finish();
            byte[] packed = new byte[100000];
            sum.update(packed, 0, deflater.deflate(packed));
            deflater.end();
        }
        return sum.getValue();
    }

    public static void main(String[] words) throws Exception {
        ExecutorService pool = Executors.newFixedThreadPool(8);
        List<Future<Long>> sums = new ArrayList<>();
        for (int n = 0; n < 8; n++) { int seed = n; sums.add(pool.submit(() -> work(seed))); }
        for (Future<Long> sum : sums) System.out.println(sum.get());
        pool.shutdown();
        Map<Integer, Long> groups = IntStream.range(0, 300000).boxed()
            .collect(Collectors.groupingBy(n -> n % 7, TreeMap::new, Collectors.counting()));
        System.out.println(groups);
    }
}
END
java -Xmx256m -XX:TieredStopAtLevel=1 Program.java
