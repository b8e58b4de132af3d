/**
 * Whose beats arrive and are refused, as the evidence tells every replica. A verdict on silence says so then, and asks the store nothing for
 * it: a replica that has just started may not know it yet, and says of the machine what it would say of any other.
 */
import type { Evidence } from '../../contract/evidence/evidence.ts';
import { isStillRefused, type RefusedBeats, refusedIn } from '../../lifecycle/findings/refused-beats.ts';

export interface Refusals {
  observe(fact: Evidence): void;
  /** In short, since a verdict is shown to tenants as well; null where nobody knows of any, or it was heard since. */
  why(node_instance_id: string | null, last_seen_at: Date | null, now: Date): string | null;
}

/** It beats, and is not to blame: whoever made the token of its relay, or took it away, can help. */
export const refusedInWords = (why: string): string => `its heartbeats arrive and are refused, for ${why}`;
export const ownerOfRefusal = { owner_layer: 'operator' } as const;

const mostKept = 50_000;

export function createRefusals(): Refusals {
  /** The longest ago first. */
  const kept = new Map<string, RefusedBeats>();
  return {
    observe(fact) {
      const refused = refusedIn(fact, String(fact.data.pool));
      const id = fact.node_instance_id;
      if (!refused || !id) return;
      kept.delete(id);
      const [oldest] = kept.keys();
      if (kept.size >= mostKept && oldest !== undefined) kept.delete(oldest);
      kept.set(id, refused);
    },
    why(node_instance_id, last_seen_at, now) {
      const refused = kept.get(node_instance_id ?? '');
      return refused && isStillRefused(refused, last_seen_at, now) ? refused.in_short : null;
    },
  };
}
