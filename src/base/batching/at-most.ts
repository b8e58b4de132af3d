/**
 * So many at a time, the others in the order in which they came. For work that needs a connection: who waits here holds none, does not
 * count as somebody whom the store keeps waiting, and leaves others one. Once it is hopeless for one, nobody waits for the same.
 */
export function atMost(
  limit: number,
  isHopeless: (error: unknown) => boolean,
): <T>(work: () => Promise<T>) => Promise<T> {
  const waiting: { go(): void; giveUp(error: unknown): void }[] = [];
  let busy = 0;

  return async (work) => {
    if (busy >= limit) await new Promise<void>((go, giveUp) => waiting.push({ go, giveUp }));
    else busy++;
    try {
      return await work();
    } catch (error) {
      if (isHopeless(error)) for (const each of waiting.splice(0)) each.giveUp(error);
      throw error;
    } finally {
      // Whoever comes next takes this place, so that nobody else can slip in before it.
      const next = waiting.shift();
      if (next) next.go();
      else busy--;
    }
  };
}
