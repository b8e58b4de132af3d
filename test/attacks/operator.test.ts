/** Attacks by the holder of a fleet-wide token that is not an admin's: an operator or a viewer. */
import { changedEvidenceAttacks } from './operator/changed-evidence.ts';
import { poolFieldAttacks } from './operator/pool-fields.ts';
import { taskKeyAttacks } from './operator/task-keys.ts';
import { yamlAttacks } from './operator/yaml.ts';
import { describeAttacks } from './support/attack.ts';

describeAttacks('operator', [...changedEvidenceAttacks, ...poolFieldAttacks, ...taskKeyAttacks, ...yamlAttacks]);
