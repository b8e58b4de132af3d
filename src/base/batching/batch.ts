/**
 * Questions that come while others are being answered wait, and are then asked together. Nobody waits for company: the first
 * is asked at once, and how many go together grows with how many there are.
 */

interface Waiting<Key, Answer> {
  key: Key;
  resolve(answer: Answer): void;
  reject(error: unknown): void;
}

export interface Limits {
  /** So many keys in one question. */
  most: number;
  /** So many questions at a time. More than one, so that a slow answer does not keep everybody waiting. */
  at_once: number;
}

/** `ask` answers in the order of its keys. */
export function gathered<Key, Answer>(
  ask: (keys: Key[]) => Promise<Answer[]>,
  { most, at_once }: Limits,
): (key: Key) => Promise<Answer> {
  const waiting: Waiting<Key, Answer>[] = [];
  let asking = 0;

  const next = async () => {
    // Whatever is asked for in the same breath goes along.
    await Promise.resolve();
    const together = waiting.splice(0, most);
    try {
      const answers = await ask(together.map((each) => each.key));
      for (const [index, each] of together.entries()) each.resolve(answers[index] as Answer);
    } catch (error) {
      for (const each of together) each.reject(error);
    }
    if (waiting.length > 0) void next();
    else asking--;
  };

  return (key) =>
    new Promise((resolve, reject) => {
      waiting.push({ key, resolve, reject });
      if (asking >= at_once || (asking > 0 && waiting.length > 1)) return;
      asking++;
      void next();
    });
}
