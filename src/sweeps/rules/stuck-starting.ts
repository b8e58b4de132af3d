/**
 * `stuck-starting`: starting → ready at the deadline, although the machine never reported ready.
 * Its heartbeats prove that it is alive, and its prerequisites are met.
 */
import type { SweepServices } from '../runner/services.ts';
import { defineDeadlineRule } from './define-deadline-rule.ts';

export const stuckStarting = (services: SweepServices) =>
  defineDeadlineRule(services, {
    name: 'stuck-starting',
    from: 'starting',
    to: 'ready',
    where: [['fresh', 'complete']],
    reason: (waited) => `it sends heartbeats and its start-up time is over, though it never reported ready (${waited})`,
  });
