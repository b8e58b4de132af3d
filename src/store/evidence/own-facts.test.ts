/**
 * Code that reads evidence by kind uses only facts that the server recorded. The forged facts here
 * bypass the check of reserved kinds, so that only their origin excludes them.
 */
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { until } from '../../../test/support/until.ts';
import { secondsLater } from '../../base/clock.ts';
import type { NodeInstanceId } from '../../base/ids.ts';
import type { Origin } from '../../lifecycle/explain/evidence-origins.ts';
import { wholeFleet } from '../../lifecycle/visibility.ts';
import { rebuildNodes } from '../history/projection.ts';
import { rebuildNodesAt } from '../history/time-travel.ts';
import { readFacts } from '../replay/replay-facts.ts';
import type { NodeRow } from '../rows/nodes.ts';
import { findProvenAbsent } from '../supervision/machine-inspections.ts';
import { findFailingSubjects } from '../supervision/repeat-failures.ts';
import { type Fleet, testFleet } from '../testing/fleet.ts';
import { type OutsideRow, recordOutsideFacts } from './evidence.ts';
import { readCitedEvidence } from './explanation-evidence.ts';

let store: TestStore;
let fleet: Fleet;
beforeAll(async () => {
  store = await testStore();
  fleet = await testFleet(store.db);
});
afterAll(() => store.close());

/** Inserts facts as if the check of reserved kinds were missing. */
async function forge(
  origin: Origin,
  { node_id, node_instance_id }: NodeRow,
  ...facts: Pick<OutsideRow, 'kind' | 'data'>[]
) {
  for (const { kind, data } of facts)
    await store.db.query(
      `insert into evidence (at, layer, kind, summary, data, node_id, node_instance_id, origin)
       values ($1, 'provider', $2, 'forged', $3, $4, $5, $6)`,
      [fleet.now(), kind, data, node_id, node_instance_id, origin],
    );
}

const failure = { kind: 'node.failed', data: { from: 'provisioning', to: 'failed', set: { status: 'failed' } } };

describe.for<Origin>(['node', 'person'])('a forged fact of origin %s', (origin) => {
  it('does not change rebuilt rows, present or past', async () => {
    const node = await fleet.node('ready');
    await forge(origin, node, { kind: 'node.retired', data: { set: { status: 'retired' } } });
    expect((await rebuildNodes(store.db, [node.node_id]))[0]?.status).toBe('ready');
    const [past] = await rebuildNodesAt(store.db, [{ id: node.node_id, at: fleet.now() }]);
    expect(past?.state.status).toBe('ready');
  });

  it('does not prove a machine absent or clean', async () => {
    const node = await fleet.node('ready');
    const since = fleet.now();
    await forge(origin, node, { kind: 'proof.absent', data: {} }, { kind: 'proof.clean', data: {} });
    const instance = node.node_instance_id as NodeInstanceId;
    expect(await findProvenAbsent(store.db, [instance])).toEqual(new Set());
    const [proven] = await store.db.query('select proven_since($1, $2) as proven', [node.node_id, since]);
    expect(proven).toEqual({ proven: false });
  });

  it('does not count as a failed provision and is not replayed', async () => {
    const node = await fleet.node('starting');
    const since = fleet.now();
    await forge(origin, node, failure, failure, failure, failure);
    const window = { since, min_failures: 3, window_seconds: 60 };
    expect(await findFailingSubjects(store.db, window)).toEqual([]);
    const { facts } = await readFacts(store.db, {
      pool: node.pool,
      since,
      until: secondsLater(fleet.now(), 1),
      max_rows: 100,
    });
    expect(facts).toEqual([]);
  });

  it('is not cited by an explanation', async () => {
    const node = await fleet.node('starting');
    const kinds = ['beat.refused', 'probe.unanswered', 'node.explained', 'bootstrap.diagnosis', 'node.starting'];
    await forge(origin, node, ...kinds.map((kind) => ({ kind, data: {} })));
    const { node_id, node_instance_id, status } = node;
    const cited = await until('the real change to be cited', async () => {
      const facts = await readCitedEvidence(
        store.db,
        { node_id, node_instance_id, status, deadline_at: null },
        wholeFleet,
        null,
      );
      return facts.length > 0 ? facts : undefined;
    });
    expect(cited.map(({ summary }) => summary)).not.toContain('forged');
  });
});

describe('a fact from before origins were stored (origin unknown)', () => {
  it('is cited if its kind was reserved at that time, and ignored if callers could post it', async () => {
    const node = await fleet.node('starting');
    await forge('unknown', node, { kind: 'node.explained', data: {} }, { kind: 'beat.refused', data: {} });
    const { node_id, node_instance_id, status } = node;
    const cited = await until('the explanation to be cited', async () => {
      const facts = await readCitedEvidence(
        store.db,
        { node_id, node_instance_id, status, deadline_at: null },
        wholeFleet,
        null,
      );
      return facts.some(({ kind }) => kind === 'node.explained') ? facts : undefined;
    });
    expect(cited.map(({ kind }) => kind)).not.toContain('beat.refused');
  });
});

it('refuses reserved kinds from outside', async () => {
  const fact = { at: fleet.now(), layer: 'node', kind: 'beat.refused', summary: 'forged' } as const;
  await expect(recordOutsideFacts(store.db, 'node', [fact])).rejects.toThrow('reserved');
});
