import java.nio.ByteBuffer;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.zip.Deflater;

/** Threads that fill maps with texts, allocate buffers outside of the Java heap, and compress. */
public class Load {
    private static final int THREADS = 3;

    public static void main(String[] arguments) throws InterruptedException {
        int rounds = Integer.parseInt(arguments[0]);
        List<Thread> threads = new ArrayList<>();
        for (int number = 0; number < THREADS; number++) {
            Thread thread = new Thread(() -> work(rounds));
            thread.start();
            threads.add(thread);
        }
        for (Thread thread : threads) {
            thread.join();
        }
    }

    private static void work(int rounds) {
        Map<String, byte[]> kept = new HashMap<>();
        for (int round = 0; round < rounds; round++) {
            for (int number = 0; number < 2000; number++) {
                kept.put("key " + number * 7919 % 3000, new byte[number % 300]);
            }
            List<ByteBuffer> buffers = new ArrayList<>();
            for (int number = 0; number < 50; number++) {
                buffers.add(ByteBuffer.allocateDirect(64 << (number + round) % 10));
            }
            compress(kept.keySet().toString().getBytes(), buffers);
        }
    }

    private static void compress(byte[] text, List<ByteBuffer> buffers) {
        Deflater deflater = new Deflater(Deflater.BEST_SPEED);
        deflater.setInput(text);
        deflater.finish();
        for (ByteBuffer buffer : buffers) {
            deflater.deflate(buffer);
        }
        deflater.end();
    }
}
