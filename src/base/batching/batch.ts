/**
 * Batches concurrent calls: calls that arrive while others run go together in the next batch. The
 * first call is served at once; batches grow with the load.
 */

interface Waiting<Key, Answer> {
  key: Key;
  resolve(answer: Answer): void;
  reject(error: unknown): void;
}

export interface Limits {
  /** Keys in one batch. */
  max_keys: number;
  /** Batches in flight. More than one, so that a slow batch does not hold up everyone. */
  max_concurrent: number;
}

/** `serve` returns answers in the order of its keys. */
export function createBatcher<Key, Answer>(
  serve: (keys: Key[]) => Promise<Answer[]>,
  { max_keys, max_concurrent }: Limits,
): (key: Key) => Promise<Answer> {
  const waiting: Waiting<Key, Answer>[] = [];
  let running = 0;

  const next = async () => {
    // Let calls of the same tick join the batch.
    await Promise.resolve();
    const batch = waiting.splice(0, max_keys);
    try {
      const answers = await serve(batch.map((each) => each.key));
      for (const [index, each] of batch.entries()) each.resolve(answers[index] as Answer);
    } catch (error) {
      for (const each of batch) each.reject(error);
    }
    if (waiting.length > 0) void next();
    else running--;
  };

  return (key) =>
    new Promise((resolve, reject) => {
      waiting.push({ key, resolve, reject });
      if (running >= max_concurrent || (running > 0 && waiting.length > 1)) return;
      running++;
      void next();
    });
}
