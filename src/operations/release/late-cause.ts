/** What a driver knows of a machine's end, told of one that was given up before anybody knew it. */
import { now } from '../../base/clock.ts';
import type { Diagnosis } from '../../drivers/driver.ts';
import { attachLateCause } from '../../store/transitions/late-cause.ts';
import type { OperationServices } from '../runtime/services.ts';
import type { Subject } from '../runtime/subject.ts';

/** Whether it was news. What is not certain explains nothing, and changes no verdict. */
export async function tellLateCause(
  { db, clock }: Pick<OperationServices, 'db' | 'clock'>,
  { node, node_instance_id }: Subject,
  { certain, code = 'machine_crashed', summary: says }: Diagnosis,
): Promise<boolean> {
  if (!certain) return false;
  const cause = { node_id: node.node_id, node_instance_id, code, says };
  return db.transaction((tx) => attachLateCause(tx, cause, now(clock)));
}
