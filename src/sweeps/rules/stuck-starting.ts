/**
 * `stuck-starting`: starting → ready at the deadline, although the machine never reported ready.
 * Applies only if its heartbeats are fresh and its prerequisites are met; otherwise
 * `start-deadline` fails it.
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
