/** All operations, in every revision that may still be running. */
import type { OperationDefinition } from '../engine/engine.ts';
import { nodeDiagnose } from './actions/node-diagnose.ts';
import { nodeProbe } from './actions/node-probe.ts';
import { nodeProvisions } from './provision/node-provision.ts';
import { nodeReEnroll } from './provision/node-re-enroll.ts';
import { nodeReactivate } from './provision/node-reactivate.ts';
import { nodeReimage } from './provision/node-reimage.ts';
import { fleetRecover } from './recovery/fleet-recover.ts';
import { allocationForceRelease } from './release/allocation-force-release.ts';
import { allocationRelease } from './release/allocation-release.ts';
import { nodeRetire } from './release/node-retire.ts';
import { residueDelete } from './residue/residue-delete.ts';
import { residueVerify } from './residue/residue-verify.ts';
import type { OperationServices } from './runtime/services.ts';

export const operationRegistry = (services: OperationServices): OperationDefinition[] => [
  ...nodeProvisions(services),
  allocationRelease(services),
  allocationForceRelease(services),
  residueVerify(services),
  residueDelete(services),
  nodeRetire(services),
  nodeReimage(services),
  nodeReEnroll(services),
  nodeReactivate(services),
  fleetRecover(services),
  nodeDiagnose(services),
  nodeProbe(services),
];
