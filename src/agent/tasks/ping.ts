/** Proves that tasks are claimed and results arrive; does nothing else. */
import { now } from '../../base/clock.ts';
import { succeeded, type TaskType } from './task.ts';

export const ping: TaskType = async ({ machine }) => succeeded({ pong: true, at: now(machine.clock).toISOString() });
