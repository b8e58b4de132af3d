/**
 * Serves many keys in one call. If the call fails, bisects the keys, so that only a bad key fails
 * and the others succeed.
 */

/**
 * `serve` must return all answers in the order of the keys, or throw. If `isFatal` returns true for
 * the error, nothing is retried.
 */
export async function bisect<Key, Answer>(
  keys: readonly Key[],
  serve: (keys: readonly Key[]) => Promise<Answer[]>,
  isFatal: (error: unknown) => boolean,
): Promise<PromiseSettledResult<Answer>[]> {
  if (keys.length === 0) return [];
  try {
    return (await serve(keys)).map((value) => ({ status: 'fulfilled', value }));
  } catch (reason) {
    if (keys.length === 1 || isFatal(reason)) return keys.map(() => ({ status: 'rejected', reason }));
    const half = Math.ceil(keys.length / 2);
    const first = await bisect(keys.slice(0, half), serve, isFatal);
    return [...first, ...(await bisect(keys.slice(half), serve, isFatal))];
  }
}

export const unwrapSettled = <Answer>(settled: PromiseSettledResult<Answer>): Answer => {
  if (settled.status === 'rejected') throw settled.reason;
  return settled.value;
};
