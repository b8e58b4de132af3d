/**
 * Creates an instance's cluster, once: resource group, cluster, role assignments. Azure holds the
 * progress: each call looks and does the next thing. `state` only makes it faster and its messages
 * better; losing it loses nothing.
 */
import type { DriverOutcome, EnsureTarget } from '../../driver.ts';
import { type AksHost, inPhase, isOurs, ofAnother } from '../aks-host.ts';
import { placeIn, placeState } from '../place.ts';
import { aksSpec } from '../spec.ts';
import { clusterGone, followCluster, putCluster } from './ensure-cluster.ts';
import { ensureGroup } from './ensure-group.ts';
import { phases } from './phases.ts';

export function ensure(host: AksHost, target: EnsureTarget): Promise<DriverOutcome> {
  const spec = aksSpec(target.spec);
  const place = placeIn(target, spec.subscription_id, spec.resource_group);
  const began = typeof target.state.began_at_ms === 'number';
  return inPhase(host, began ? phases.create : phases.begin, async (): Promise<DriverOutcome> => {
    const azure = await host.azureAt(place.subscription_id);
    const making = { host, target, spec, azure, place };
    const cluster = await azure.clusters.get(place);
    if (cluster && !isOurs(cluster, target)) return ofAnother(`a cluster ${place.cluster}`, phases.create);
    if (cluster) return followCluster(making, cluster);
    if (target.state.cluster_seen === true) return clusterGone(making);
    if (!began)
      return {
        outcome: 'wait',
        retry_seconds: 0,
        message: `cluster ${place.cluster} is to be made in ${spec.location}`,
        phase: phases.begin,
        state: { ...target.state, ...placeState(place), began_at_ms: host.clock.nowMs() },
      };
    const group = await inPhase(host, phases.group, () => ensureGroup(making));
    return group ?? putCluster(making);
  });
}
