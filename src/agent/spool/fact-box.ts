/**
 * Stores facts that only the machine has, such as failed calls and crashes of the command, on disk
 * until they are sent. To bound the file, equal failures are counted in one fact, and the oldest
 * facts are dropped.
 */
import { join } from 'node:path';
import { type Clock, now } from '../../base/clock.ts';
import type { CallFailure } from '../connection/call-failure.ts';
import { readJsonFile, writeAtomically } from '../state/durable-file.ts';
import { type Fields, isFields } from '../state/shape.ts';
import { createRetryingWriter } from '../state/write-later.ts';

export interface Fact {
  at: string;
  layer: 'node' | 'transport';
  kind: string;
  summary: string;
  data: Fields;
}

export interface FactBox {
  callFailed(failure: CallFailure): void;
  addFact(kind: string, summary: string, data: Fields): void;
  isEmpty(): boolean;
  /** Returns the oldest facts. `markSent` removes exactly these, not facts added later. */
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

interface StoredFacts {
  failed_calls: FailedCall[];
  facts: Fact[];
}

/** The limit for failed calls, and again for other facts. */
const max_facts = 100;
const max_text_length = 1024;

/** `onUnsaved` is called if the disk refuses the facts. They are then written later. */
export function openFactBox(directory: string, clock: Clock, onUnsaved: (error: unknown) => void = () => {}): FactBox {
  const path = join(directory, 'facts.json');
  const stored = storedFrom(readJsonFile(path));
  const save = createRetryingWriter(clock, () => writeAtomically(path, JSON.stringify(stored)), onUnsaved);
  return {
    callFailed({ call, owner_layer, layer, code, detail }) {
      const at = now(clock).toISOString();
      const existing = stored.failed_calls.find(
        (other) => other.call === call && other.layer === layer && other.code === code,
      );
      if (existing) Object.assign(existing, { count: existing.count + 1, last_at: at, detail });
      else stored.failed_calls.push({ call, owner_layer, layer, code, count: 1, first_at: at, last_at: at, detail });
      stored.failed_calls.splice(0, stored.failed_calls.length - max_facts);
      save();
    },
    addFact(kind, summary, data) {
      stored.facts.push({
        at: now(clock).toISOString(),
        layer: 'node',
        kind,
        summary: summary.slice(0, max_text_length),
        data,
      });
      stored.facts.splice(0, stored.facts.length - max_facts);
      save();
    },
    isEmpty: () => stored.facts.length === 0 && stored.failed_calls.length === 0,
    take(max) {
      const facts = stored.facts.slice(0, max);
      const calls = stored.failed_calls.slice(0, max - facts.length).map((failedCall) => ({ ...failedCall }));
      return {
        facts: [...facts, ...calls.map(factOf)],
        markSent() {
          stored.facts = stored.facts.filter((fact) => !facts.includes(fact));
          for (const { call, layer, code, count } of calls) {
            const same = stored.failed_calls.find(
              (other) => other.call === call && other.layer === layer && other.code === code,
            );
            if (same) Object.assign(same, { count: same.count - count, first_at: same.last_at });
          }
          stored.failed_calls = stored.failed_calls.filter(({ count }) => count > 0);
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
    summary: `${call} failed ${times} in layer ${layer}: ${code}`.slice(0, max_text_length),
    data: {
      call,
      owner_layer,
      detail_layer: layer,
      code,
      count,
      first_at,
      last_at,
      detail: detail.slice(0, max_text_length),
    },
  };
}

function storedFrom(value: unknown): StoredFacts {
  if (!isFields(value) || !Array.isArray(value.failed_calls) || !Array.isArray(value.facts)) {
    return { failed_calls: [], facts: [] };
  }
  return { failed_calls: value.failed_calls, facts: value.facts };
}
