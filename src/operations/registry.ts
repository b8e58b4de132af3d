/** Every operation there is, in every revision that may still be running. A new one is one file and one line here. */
import type { OperationDefinition } from '../engine/engine.ts';
import { allocationForceRelease } from './allocation-force-release.ts';
import { allocationRelease } from './allocation-release.ts';
import { fleetRecover } from './fleet-recover.ts';
import { nodeDiagnose } from './node-diagnose.ts';
import { nodeProbe } from './node-probe.ts';
import { nodeProvisions } from './node-provision.ts';
import { nodeReEnroll } from './node-re-enroll.ts';
import { nodeReactivate } from './node-reactivate.ts';
import { nodeReimage } from './node-reimage.ts';
import { nodeRetire } from './node-retire.ts';
import { residueDelete } from './residue-delete.ts';
import { residueVerify } from './residue-verify.ts';
import type { OperationServices } from './services.ts';

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
