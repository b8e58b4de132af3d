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
    reason: (waited) =>
      `it sent heartbeats when its start-up time ended, though it had never reported ready (${waited})`,
  });
