/** What an explanation cites of a machine to which very much happened. */
import { expect, it } from 'vitest';
import { testStore } from '../../test/support/store.ts';
import { secondsLater } from '../base/clock.ts';
import { evidenceFor } from './because.ts';
import { type Fact, recordEvidence } from './evidence.ts';
import { testFleet } from './testing/fleet.ts';

it('cites what was found, however often the deadline was moved since, and the last of those moves', async () => {
  const store = await testStore();
  try {
    const fleet = await testFleet(store.db);
    const { node_id, node_instance_id, status } = await fleet.node('starting');
    const kinds: Fact['kind'][] = ['node.would_have', ...Array<Fact['kind']>(20).fill('node.deadline_moved')];
    const facts = kinds.map(
      (kind, index): Fact => ({
        at: secondsLater(fleet.now(), index),
        layer: 'rule',
        kind,
        summary: `${kind} ${index}`,
        node_id,
        node_instance_id,
      }),
    );
    const ofAFormerLife: Fact = {
      ...(facts[0] as Fact),
      kind: 'probe.answered',
      at: secondsLater(fleet.now(), -86_400),
    };
    await store.db.transaction((tx) => recordEvidence(tx, [...facts, ofAFormerLife]));
    const deadline_at = secondsLater(fleet.now(), 60).toISOString();
    const cited = await evidenceFor(store.db, { node_id, node_instance_id, status, deadline_at }, null, null);
    const told = cited.filter(
      ({ kind, summary }) => kind === 'probe.answered' || facts.some((fact) => fact.summary === summary),
    );
    expect(told.map(({ summary }) => summary)).toEqual(['node.deadline_moved 20', 'node.would_have 0']);
  } finally {
    await store.close();
  }
});
