/**
 * One after another within a lane, in the order in which they came. For work that would wait for the same lock anyway: while
 * it waits here it holds no connection, and those who want something else of the store find one.
 */
export interface Lanes {
  run<T>(lane: string, work: () => Promise<T>): Promise<T>;
}

export function createLanes(): Lanes {
  /** The last in each lane; whoever is the last when it is done clears the lane away. */
  const last = new Map<string, Promise<unknown>>();
  return {
    run(lane, work) {
      const before = last.get(lane) ?? Promise.resolve();
      const mine = before.then(work);
      const over = mine.then(
        () => {},
        () => {},
      );
      last.set(lane, over);
      void over.then(() => {
        if (last.get(lane) === over) last.delete(lane);
      });
      return mine;
    },
  };
}
