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

const none = { explainedIds: new Set(), immediate: [], delayed: [] };

describe('staleAfter', () => {
  it.each(['brake.held', 'brake.resumed', 'brake.ended', 'maintenance.declared', 'maintenance.ended'])(
    '%s reads the brake again at once',
    (kind) => expect(staleAfter([fact(kind)])).toEqual({ ...none, immediate: [keys.brake()] }),
  );
  it.each(['evidence.restored', 'restoration.ended'])('%s reads the restoration again at once', (kind) =>
    expect(staleAfter([fact(kind)])).toEqual({ ...none, immediate: [keys.allRestorations(), keys.serverStatus()] }),
  );
  it('many machines that enter or leave a hold cause one recount', () => {
    const burst = Array.from({ length: 100 }, (_, i) => fact(i % 2 ? 'node.held' : 'node.held_over', 'n'));
    expect(staleAfter(burst)).toEqual({ ...none, explainedIds: new Set(['n']), delayed: [keys.brake()] });
  });
  it('a changed node, operation or fact refreshes the explanation of its node', () => {
    const node: Change = { topic: 'node', value: { node_id: 'n' } as Node };
    const operation: Change = { topic: 'operation', value: { node_id: 'm' } as Operation };
    expect(staleAfter([node, operation, fact('probe.unanswered', 'k')])).toEqual({
      explainedIds: new Set(['n', 'm', 'k']),
      immediate: [],
      delayed: [keys.pools(), keys.overview()],
    });
  });
  it('an action refreshes the audit log', () => {
    const action = { kind: 'pool.declared', node_id: null, actor: { kind: 'token', id: 't', name: 'ann' } } as Evidence;
    expect(staleAfter([{ topic: 'evidence', value: action }]).delayed).toEqual([keys.allAudits()]);
  });
  it('a changed pool or budget is read again at once, with its boots', () => {
    const immediate = [keys.pools(), keys.allBootStatistics()];
    for (const kind of ['pool.declared', 'budget.learned'])
      expect(staleAfter([fact(kind)])).toEqual({ ...none, immediate });
  });
  it('many findings and residue entries cause one reload of their lists', () => {
    const burst = Array.from({ length: 100 }, () => [fact('finding.opened', 'n'), fact('residue.left', 'n')]).flat();
    expect(staleAfter(burst)).toEqual({
      ...none,
      explainedIds: new Set(['n']),
      delayed: [keys.allFindings(), keys.allResidue()],
    });
  });
  it('a change of an allocation or its machine refreshes its actions', () => {
    const allocation: Change = { topic: 'allocation', value: { allocation_id: 'a', node_id: 'n' } as Allocation };
    expect(staleAfter([allocation]).explainedIds).toEqual(new Set(['n', 'a']));
  });
  it('boot, token and session facts refresh their queries; other facts change nothing', () => {
    expect(staleAfter([fact('boot.stage')])).toEqual({ ...none, immediate: [keys.allBootStages()] });
    expect(staleAfter([fact('registration.refused')])).toEqual(none);
    expect(staleAfter([fact('token.created')])).toEqual({ ...none, immediate: [keys.tokens(), keys.sessions()] });
    expect(staleAfter([fact('session.ended')])).toEqual({ ...none, immediate: [keys.sessions()] });
  });
});
