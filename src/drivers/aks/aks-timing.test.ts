/**
 * Ten minutes of a cluster coming up, on a virtual clock: progress is reported often, and Azure is
 * polled no earlier than it says.
 */
import { expect, it } from 'vitest';
import { aksFixture, loadSdks } from '../../../test/support/arm/aks-fixture.ts';
import { startArm } from '../../../test/support/arm/arm.ts';
import { paths } from '../../../test/support/arm/faults.ts';
import { refusals } from '../../../test/support/arm/refusal.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import type { DriverOutcome } from '../driver.ts';

const usual = {
  ...{ group_visible: 3, cluster_visible: 5, cluster_create: 240, agent_pool: 180 },
  ...{ cluster_delete: 300, group_delete: 60, abort: 30, retry_after: 30 },
};
const snapshot_seconds = 20;

it('reports at least every 20 s, and polls the operation as often as Azure wants', async () => {
  const clock = virtualClock();
  const arm = await startArm({ clock, pace: usual });
  try {
    await loadSdks(arm);
    const world = aksFixture(arm, { clock, look_seconds: 10 });
    const target = world.withSpec({});
    const began_ms = clock.nowMs();
    const answers: { at: number; answer: DriverOutcome }[] = [];
    for (let outcome = 'wait'; outcome === 'wait'; ) {
      const at = (clock.nowMs() - began_ms) / 1000;
      if (answers.length === 20)
        arm.faults.next({ method: 'GET', path: paths.cluster, effect: refusals.throttled(17) });
      // A replica that knows only the stored state.
      const answer = await world.open().ensure(target);
      if (answer.outcome === 'failed') expect.fail(answer.message);
      if (answer.state) target.state = answer.state;
      answers.push({ at, answer });
      outcome = answer.outcome;
      if (answer.outcome === 'wait') await clock.advance(answer.retry_seconds * 1000);
    }
    const minutes = (answers.at(-1)?.at ?? 0) / 60;
    expect(minutes).toBeGreaterThan(10);
    expect(minutes).toBeLessThan(11);

    const gaps = answers.slice(1).map(({ at }, each) => at - (answers[each]?.at ?? 0));
    expect(Math.max(...gaps)).toBeLessThanOrEqual(snapshot_seconds);
    expect(gaps).toContain(17);

    const messages = answers.map(({ answer }) => answer.message);
    expect(messages.some((message) => message.includes('not visible yet'))).toBe(true);
    expect(messages.some((message) => /^AKS state: Creating · ARM 1m 4\ds · \d+%$/.test(message))).toBe(true);
    const marks = answers.flatMap(({ answer }) => ('mark' in answer && answer.mark ? [answer.mark] : []));
    for (const mark of marks) expect(mark).not.toContain('ARM');
    const phases = answers.map(({ answer }) => answer.phase ?? '').filter(Boolean);
    expect([...new Set(phases)]).toEqual([
      ...['creating_cluster', 'ensuring_resource_group', 'arm_create_or_update', 'ensuring_rbac', 'completed'],
    ]);

    const followed = arm.requests.filter(({ path }) => paths.async_operation.test(path)).length;
    expect(followed).toBeGreaterThan(5);
    expect(followed).toBeLessThanOrEqual((minutes * 60) / usual.retry_after + 1);
    expect(arm.clustersCreated()).toBe(1);
  } finally {
    await arm.stop();
  }
});
