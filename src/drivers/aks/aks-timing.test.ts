/**
 * Runs the ten-minute creation of a cluster on a virtual clock. The driver must report progress
 * often, and must not poll Azure earlier than Azure asks.
 */
import { expect, it } from 'vitest';
import { aksFixture, loadSdks } from '../../../test/support/arm/aks-fixture.ts';
import { startArm } from '../../../test/support/arm/arm.ts';
import { paths } from '../../../test/support/arm/faults.ts';
import { refusals } from '../../../test/support/arm/refusal.ts';
import { virtualClock } from '../../base/virtual-clock.ts';
import type { DriverOutcome } from '../driver.ts';

const usualDurations = {
  ...{ group_visible: 3, cluster_visible: 5, cluster_create: 240, agent_pool: 180 },
  ...{ cluster_delete: 300, group_delete: 60, abort: 30, retry_after: 30 },
};
const max_report_gap_seconds = 20;

it('reports at least every 20 s, and polls the operation no more often than Azure asks', async () => {
  const clock = virtualClock();
  const arm = await startArm({ clock, pace: usualDurations });
  try {
    await loadSdks(arm);
    const fixture = aksFixture(arm, { clock, poll_seconds: 10 });
    const target = fixture.withSpec({});
    const began_ms = clock.nowMs();
    const answers: { at: number; answer: DriverOutcome }[] = [];
    for (let outcome = 'wait'; outcome === 'wait'; ) {
      const at = (clock.nowMs() - began_ms) / 1000;
      if (answers.length === 20)
        arm.faults.next({ method: 'GET', path: paths.cluster, effect: refusals.throttled(17) });
      // A new driver has only the stored state, like a replica that takes over.
      const answer = await fixture.open().ensure(target);
      if (answer.outcome === 'failed') expect.fail(answer.message);
      if (answer.state) target.state = answer.state;
      answers.push({ at, answer });
      outcome = answer.outcome;
      if (answer.outcome === 'wait') await clock.advance(answer.retry_seconds * 1000);
    }
    const minutes = (answers.at(-1)?.at ?? 0) / 60;
    expect(minutes).toBeGreaterThan(10);
    expect(minutes).toBeLessThan(11);

    const gaps = answers.slice(1).map(({ at }, index) => at - (answers[index]?.at ?? 0));
    expect(Math.max(...gaps)).toBeLessThanOrEqual(max_report_gap_seconds);
    expect(gaps).toContain(17);

    const messages = answers.map(({ answer }) => answer.message);
    expect(messages.some((message) => message.includes('not visible yet'))).toBe(true);
    expect(messages.some((message) => /^AKS state: Creating · for 1m 4\ds · \d+%$/.test(message))).toBe(true);
    const marks = answers.flatMap(({ answer }) => ('mark' in answer && answer.mark ? [answer.mark] : []));
    for (const mark of marks) expect(mark).not.toContain('ARM');
    const phases = answers.map(({ answer }) => answer.phase ?? '').filter(Boolean);
    expect([...new Set(phases)]).toEqual([
      ...['creating_cluster', 'ensuring_resource_group', 'arm_create_or_update', 'ensuring_rbac', 'completed'],
    ]);

    const pollCount = arm.requests.filter(({ path }) => paths.async_operation.test(path)).length;
    expect(pollCount).toBeGreaterThan(5);
    expect(pollCount).toBeLessThanOrEqual((minutes * 60) / usualDurations.retry_after + 1);
    expect(arm.clustersCreated()).toBe(1);
  } finally {
    await arm.stop();
  }
});
