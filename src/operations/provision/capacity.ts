/**
 * Waiting for the provider's capacity is queueing, not booting: while it lasts the node has the
 * queue's deadline, and its boot budget starts when the capacity is granted.
 */
import { now, secondsLater } from '../../base/clock.ts';
import type { DriverOutcome } from '../../drivers/driver.ts';
import { lockNode } from '../../store/rows/nodes.ts';
import { markSigns, noteAdvance } from '../../store/transitions/advance.ts';
import { moveDeadlines } from '../../store/transitions/deadlines.ts';
import { budgetOf } from '../../store/transitions/transition-rules.ts';
import type { OperationServices } from '../runtime/services.ts';
import type { Subject } from '../runtime/subject.ts';

/**
 * Starts or stops the clock of this boot as the driver's answer says. Repeating it changes nothing.
 */
export async function keepClock(services: OperationServices, subject: Subject, answer: DriverOutcome): Promise<void> {
  const waits = answer.outcome === 'wait' && answer.waits_for === 'capacity';
  const signs =
    answer.outcome === 'failed'
      ? []
      : (answer.parts ?? []).map(({ name, state }) => ({ kind: 'part' as const, code: `${name}: ${state}` }));
  if (!waits && subject.node.waiting_for === null && signs.length === 0) return;
  const at = now(services.clock);
  const { environment } = services;
  await services.db.transaction(async (tx) => {
    const node = await lockNode(tx, subject.node.node_id);
    if (node?.status !== 'provisioning' || node.node_instance_id !== subject.node_instance_id) return;
    if (waits === (node.waiting_for === 'capacity')) {
      if (!waits) await noteAdvance(tx, node, signs, at, environment);
      return;
    }
    const phase = waits ? 'queue' : 'provision';
    const budget = budgetOf(phase, subject.pool, environment, node.requested_provision_seconds).seconds;
    const seconds = waits ? budget : (node.budget_seconds ?? budget);
    const set = waits ? { waiting_for: 'capacity' } : { waiting_for: null, clock_from: at };
    const reason = waits
      ? 'the provider has no capacity now; the boot budget starts when it has'
      : 'the provider granted capacity; the boot budget starts';
    const deadline_at = secondsLater(at, seconds);
    await moveDeadlines(tx, [{ node, deadline_at, set, reason }], { layer: 'provider' }, at);
    // States that the provider showed while we were queued do not count as advances later.
    if (signs.length > 0) await markSigns(tx, subject.node_instance_id, signs, at);
  });
}
