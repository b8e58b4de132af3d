/**
 * Keeps facts that only the machine knows on disk until they are sent: failed calls, crashes of the
 * command. Bounded: equal failures are counted in one fact, and the oldest facts are dropped.
 */
import { join } from 'node:path';
import { type Clock, now } from '../../base/clock.ts';
import type { CallFailure } from '../connection/call-failure.ts';
import { readJsonFile, writeAtomically } from '../state/durable-file.ts';
import { type Fields, isFields } from '../state/shape.ts';

export interface Fact {
  at: string;
  layer: 'node' | 'transport';
  kind: string;
  summary: string;
  data: Fields;
}

export interface FactBox {
  callFailed(failure: CallFailure): void;
  happened(kind: string, summary: string, data: Fields): void;
  isEmpty(): boolean;
  /** The oldest facts; `markSent` removes exactly these, not later ones. */
  take(max: number): { facts: Fact[]; markSent(): void };
}

interface FailedCall {
  call: string;
  owner_layer: string;
  layer: string;
  code: string;
  count: number;
  first_at: string;
  last_at: string;
  detail: string;
}

interface Kept {
  failed_calls: FailedCall[];
  facts: Fact[];
}

const max_kept = 100;

export function openFactBox(directory: string, clock: Clock): FactBox {
  const path = join(directory, 'facts.json');
  const kept = keptFrom(readJsonFile(path));
  const save = () => writeAtomically(path, JSON.stringify(kept));
  return {
    callFailed({ call, owner_layer, layer, code, detail }) {
      const at = now(clock).toISOString();
      const known = kept.failed_calls.find((one) => one.call === call && one.layer === layer && one.code === code);
      if (known) Object.assign(known, { count: known.count + 1, last_at: at, detail });
      else kept.failed_calls.push({ call, owner_layer, layer, code, count: 1, first_at: at, last_at: at, detail });
      kept.failed_calls.splice(0, kept.failed_calls.length - max_kept);
      save();
    },
    happened(kind, summary, data) {
      kept.facts.push({ at: now(clock).toISOString(), layer: 'node', kind, summary: summary.slice(0, 1024), data });
      kept.facts.splice(0, kept.facts.length - max_kept);
      save();
    },
    isEmpty: () => kept.facts.length === 0 && kept.failed_calls.length === 0,
    take(max) {
      const facts = kept.facts.slice(0, max);
      const calls = kept.failed_calls.slice(0, max - facts.length).map((one) => ({ ...one }));
      return {
        facts: [...facts, ...calls.map(factOf)],
        markSent() {
          kept.facts = kept.facts.filter((fact) => !facts.includes(fact));
          for (const { call, layer, code, count } of calls) {
            const same = kept.failed_calls.find((one) => one.call === call && one.layer === layer && one.code === code);
            if (same) Object.assign(same, { count: same.count - count, first_at: same.last_at });
          }
          kept.failed_calls = kept.failed_calls.filter(({ count }) => count > 0);
          save();
        },
      };
    },
  };
}

function factOf({ call, owner_layer, layer, code, count, first_at, last_at, detail }: FailedCall): Fact {
  const times = count === 1 ? 'once' : `${count} times since ${first_at}`;
  return {
    at: last_at,
    layer: 'transport',
    kind: 'agent_call_failed',
    summary: `${call} failed ${times} in layer ${layer}: ${code}`.slice(0, 1024),
    data: { call, owner_layer, detail_layer: layer, code, count, first_at, last_at, detail: detail.slice(0, 1024) },
  };
}

function keptFrom(value: unknown): Kept {
  if (!isFields(value) || !Array.isArray(value.failed_calls) || !Array.isArray(value.facts)) {
    return { failed_calls: [], facts: [] };
  }
  return { failed_calls: value.failed_calls, facts: value.facts };
}
