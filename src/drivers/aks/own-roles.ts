/**
 * The existing role assignments of an instance: those in its pool's spec, and those on its cluster
 * with a name derived from it.
 */
import type { DriverTarget } from '../driver.ts';
import type { Placed } from './aks-host.ts';
import type { Assignment } from './azure/azure-roles.ts';
import { grantsOf } from './ensure/ensure-roles.ts';
import { clusterId } from './place.ts';
import { roleAssignmentId } from './role-id.ts';
import { isAksSpec } from './spec.ts';

export async function ownRoles({ azure, place }: Placed, target: DriverTarget): Promise<Assignment[]> {
  const scopes = [
    clusterId(place),
    ...(isAksSpec(target.spec) ? grantsOf(place, target.spec) : []).map(({ scope }) => scope),
  ];
  const distinct = new Map(scopes.map((scope) => [scope.toLowerCase(), scope]));
  const found = await Promise.all([...distinct.values()].map((scope) => azure.roles.at(scope)));
  return found.flat().filter((each) => roleAssignmentId(each, target.node_instance_id) === each.name.toLowerCase());
}
