/** What leads on from an operation that failed, where that is not the same operation once more; in words for whoever asked for that. */
import type { NodeActionName } from '../lifecycle/actions/actions.ts';
import { nodeDiagnoseKind } from './actions/node-diagnose.ts';
import { nodeProbeKind } from './actions/node-probe.ts';
import { nodeReEnrollKind } from './provision/node-re-enroll.ts';
import { nodeReactivateKind } from './provision/node-reactivate.ts';
import { nodeReimageKind } from './provision/node-reimage.ts';
import { nodeProvisionKind } from './provision/provision-plan.ts';
import { allocationForceReleaseKind } from './release/allocation-force-release.ts';
import { nodeRetireKind } from './release/node-retire.ts';

const again = (action: NodeActionName) =>
  `Ask for the action \`${action}\` on its node again: it begins with the machine as it stands now.`;

const ways: Readonly<Record<string, string>> = {
  [nodeProvisionKind]: 'Retry the allocation instead: it needs a new instance, not the failed one again.',
  [allocationForceReleaseKind]: 'Force the release of the allocation again: it asks once more for a proof.',
  [nodeRetireKind]: again('retire'),
  [nodeReimageKind]: again('reimage'),
  [nodeReEnrollKind]: again('re-enroll'),
  [nodeReactivateKind]: again('reactivate'),
  [nodeProbeKind]: again('probe'),
  [nodeDiagnoseKind]: again('collect-diagnostics'),
};

export const insteadOfRetry = (kind: string): string => ways[kind] ?? 'Ask for the same again: it begins anew.';
