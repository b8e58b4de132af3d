/**
 * Holds the next due time of a million agents in eight bytes each. It is a timing wheel whose slots
 * are lists in one numeric array. Setting a time and taking due agents have constant cost.
 */
const slotMs = 50;
const slots = 1 << 16;
const nobody = -1;

export interface Wheel {
  /** At most one time per agent; setting a second one is an error. */
  at(agent: number, ms: number): void;
  /** Visits all due agents. */
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
      // No interval exceeds the length of the ring, which is most of an hour.
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
