/** Tests which of the listed resources have no owner. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type TestStore, testStore } from '../../../test/support/store.ts';
import { testFleet } from '../testing/fleet.ts';
import { findUnowned, type ListedResource, resourceKey } from './orphans.ts';

let store: TestStore;
beforeAll(async () => {
  store = await testStore();
});
afterAll(() => store.close());

test('distinguishes resources of one name by host and by instance', async () => {
  const fleet = await testFleet(store.db);
  const { node_id, node_instance_id } = await fleet.node('ready');
  const listed = (more: Partial<ListedResource>): ListedResource => ({
    ...{ driver: 'local', host: 'host-a', kind: 'process', resource: 'pid:1', cost_per_hour: null },
    ...{ node_id, node_instance_id },
    ...more,
  });
  const owned = listed({});
  const onOtherHost = listed({ host: 'host-b', node_id: null, node_instance_id: null });
  const ofOtherInstance = listed({ node_instance_id: 'inst_unknown' });
  const unowned = await findUnowned(store.db, [owned, onOtherHost, ofOtherInstance]);
  expect(unowned).toEqual(new Set([onOtherHost, ofOtherInstance].map(resourceKey)));
});
