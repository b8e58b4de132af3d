/**
 * When each of a million agents is next due, in eight bytes apiece: a ring of slots, each a list through one array of numbers.
 * To set a time and to take what is due cost the same however many wait.
 */
const slotMs = 50;
const slots = 1 << 16;
const nobody = -1;

export interface Wheel {
  /** At most one time each; whoever has one already must not be given another. */
  at(agent: number, ms: number): void;
  /** Everybody whose time has come. */
  due(nowMs: number, visit: (agent: number) => void): void;
  waiting(): number;
}

export function timingWheel(agents: number, fromMs: number): Wheel {
  const next = new Int32Array(agents).fill(nobody);
  const first = new Int32Array(slots).fill(nobody);
  let turned = Math.floor(fromMs / slotMs);
  let waiting = 0;
  return {
    at(agent, ms) {
      const wanted = Math.max(turned + 1, Math.ceil(ms / slotMs));
      // Nobody is told to come back later than the ring is long, which is most of an hour.
      const slot = Math.min(wanted, turned + slots - 1) % slots;
      next[agent] = first[slot] ?? nobody;
      first[slot] = agent;
      waiting++;
    },
    due(nowMs, visit) {
      const until = Math.floor(nowMs / slotMs);
      while (turned < until) {
        turned++;
        let agent = first[turned % slots] ?? nobody;
        first[turned % slots] = nobody;
        while (agent !== nobody) {
          const following = next[agent] ?? nobody;
          waiting--;
          visit(agent);
          agent = following;
        }
      }
    },
    waiting: () => waiting,
  };
}
