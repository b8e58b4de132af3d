/**
 * Batches concurrent calls. While fewer than `max_concurrent` batches run, a call starts a batch at
 * once. Otherwise it waits, and up to `max_keys` waiting calls form the next batch, so batches grow
 * with the load.
 */

interface PendingCall<Key, Answer> {
  key: Key;
  resolve(answer: Answer): void;
  reject(error: unknown): void;
}

export interface BatchLimits {
  /** The maximum number of keys in one batch. */
  max_keys: number;
  /** The maximum number of running batches. With only one, a slow batch blocks all other calls. */
  max_concurrent: number;
}

/** `serve` must return the answers in the order of the keys. */
export function createBatcher<Key, Answer>(
  serve: (keys: Key[]) => Promise<Answer[]>,
  { max_keys, max_concurrent }: BatchLimits,
): (key: Key) => Promise<Answer> {
  const waiting: PendingCall<Key, Answer>[] = [];
  let running = 0;

  const runBatch = async () => {
    // Let calls of the same tick join the batch.
    await Promise.resolve();
    const batch = waiting.splice(0, max_keys);
    try {
      const answers = await serve(batch.map((each) => each.key));
      for (const [index, each] of batch.entries()) each.resolve(answers[index] as Answer);
    } catch (error) {
      for (const each of batch) each.reject(error);
    }
    if (waiting.length > 0) void runBatch();
    else running--;
  };

  return (key) =>
    new Promise((resolve, reject) => {
      waiting.push({ key, resolve, reject });
      if (running >= max_concurrent || (running > 0 && waiting.length > 1)) return;
      running++;
      void runBatch();
    });
}
