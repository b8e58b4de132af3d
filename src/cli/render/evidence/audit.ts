/** What an audited fact was done to, or was to be, said in its line. */
import type { Evidence } from '../../../contract/evidence/evidence.ts';

/** The facts of a call name it by its address; those of an action by `target_id`; the rest by what they carry. */
function targetOf({ data, node_id, allocation_id, workflow_id }: Evidence): string | null {
  const address = (data.params ?? {}) as Record<string, unknown>;
  const names = [data.target_id, address.id, address.pool, address.name, data.residue_id, data.finding_id];
  return [...names, node_id, allocation_id, workflow_id].find((name) => typeof name === 'string') as string | null;
}

export function namingTarget(fact: Evidence): Evidence {
  const target = targetOf(fact);
  return !target || fact.summary.includes(target) ? fact : { ...fact, summary: `${target}  ${fact.summary}` };
}
