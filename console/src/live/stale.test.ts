import { describe, expect, it } from 'vitest';
import type { Allocation } from '../../../src/contract/allocation.ts';
import type { Evidence } from '../../../src/contract/evidence/evidence.ts';
import type { Node } from '../../../src/contract/node.ts';
import type { Operation } from '../../../src/contract/operation.ts';
import type { Change } from '../api/cache/journal.ts';
import { keys } from '../api/cache/keys.ts';
import { staleAfter } from './stale.ts';

const fact = (kind: string, node_id: string | null = null): Change => ({
  topic: 'evidence',
  value: { kind, node_id } as Evidence,
});

const none = { explained: new Set(), now: [], soon: [] };

describe('after live changes', () => {
  it.each(['brake.held', 'brake.resumed', 'brake.ended', 'maintenance.declared', 'maintenance.ended'])(
    '%s makes the brake be read again at once',
    (kind) => expect(staleAfter([fact(kind)])).toEqual({ ...none, now: [keys.brake()] }),
  );
  it('machines that are held or let go are counted again once, however many they are', () => {
    const burst = Array.from({ length: 100 }, (_, i) => fact(i % 2 ? 'node.held' : 'node.held_over', 'n'));
    expect(staleAfter(burst)).toEqual({ ...none, explained: new Set(['n']), soon: [keys.brake()] });
  });
  it('a node, its operation and findings about it make it be explained anew', () => {
    const node: Change = { topic: 'node', value: { node_id: 'n' } as Node };
    const operation: Change = { topic: 'operation', value: { node_id: 'm' } as Operation };
    expect(staleAfter([node, operation, fact('probe.unanswered', 'k')])).toEqual({
      explained: new Set(['n', 'm', 'k']),
      now: [],
      soon: [keys.pools(), keys.overview()],
    });
  });
  it('what somebody did is on record', () => {
    const deed = { kind: 'pool.declared', node_id: null, actor: { kind: 'token', id: 't', name: 'ann' } } as Evidence;
    expect(staleAfter([{ topic: 'evidence', value: deed }]).soon).toEqual([keys.audits()]);
  });
  it('a pool or a budget that changes is read again at once, and how its boots stand against it', () => {
    const now = [keys.pools(), keys.poolBoots()];
    for (const kind of ['pool.declared', 'budget.learned']) expect(staleAfter([fact(kind)])).toEqual({ ...none, now });
  });
  it('what is found or left behind is listed anew once, however much it is', () => {
    const burst = Array.from({ length: 100 }, () => [fact('finding.opened', 'n'), fact('residue.left', 'n')]).flat();
    expect(staleAfter(burst)).toEqual({
      ...none,
      explained: new Set(['n']),
      soon: [keys.findings(), keys.residues()],
    });
  });
  it('what happens to an allocation or its machine changes what may be done about it', () => {
    const allocation: Change = { topic: 'allocation', value: { allocation_id: 'a', node_id: 'n' } as Allocation };
    expect(staleAfter([allocation]).explained).toEqual(new Set(['n', 'a']));
  });
  it('boot stages are read again, and what nobody counts is left alone', () => {
    expect(staleAfter([fact('boot.stage')])).toEqual({ ...none, now: [keys.boots()] });
    expect(staleAfter([fact('registration.refused')])).toEqual(none);
    expect(staleAfter([fact('token.created')])).toEqual({ ...none, now: [keys.tokens(), keys.sessions()] });
    expect(staleAfter([fact('session.ended')])).toEqual({ ...none, now: [keys.sessions()] });
  });
});
