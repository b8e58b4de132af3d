/**
 * The `spec` of an ec2 pool: which machine, where, and its workload. Unknown fields are refused;
 * accounts are never part of it.
 */
import { type Static, Type } from 'typebox';
import { Compile } from 'typebox/compile';
import { cleanScript, plainText, setupScript, shellText, workloadCommand, workloadEnv } from '../workload-spec.ts';

const resourceId = (prefix: string, description: string) =>
  Type.String({ pattern: `^${prefix}-[0-9a-f]{8,32}$`, description });

export const Ec2Spec = Type.Object(
  {
    region: Type.String({ pattern: '^[a-z]{2}(-[a-z]+)+-[0-9]{1,2}$', description: 'Like eu-central-1.' }),
    image_id: resourceId('ami', 'The image. It brings Node 20 or newer, or `prepare` installs it.'),
    instance_type: Type.String({ pattern: '^[a-z0-9-]+\\.[a-z0-9-]+$', maxLength: 64, description: 'Like t3.small.' }),
    subnet_id: Type.Optional(resourceId('subnet', "The account's default subnet unless named.")),
    security_group_ids: Type.Optional(
      Type.Array(resourceId('sg', ''), {
        minItems: 1,
        maxItems: 16,
        description: "The network's default unless named.",
      }),
    ),
    key_name: Type.Optional(Type.String({ minLength: 1, maxLength: 255, description: 'A key pair for SSH.' })),
    iam_instance_profile: Type.Optional(
      Type.String({
        pattern: '^(arn:[^\\s]+:instance-profile/[\\w+=,.@/-]+|[\\w+=,.@-]{1,128})$',
        maxLength: 512,
        description: 'Name or ARN. The account that the server uses must be allowed to pass its role.',
      }),
    ),
    spot: Type.Optional(Type.Boolean({ description: 'A spot machine: cheaper, and the provider may take it back.' })),
    root_volume_gb: Type.Optional(
      Type.Integer({ minimum: 1, maximum: 65_536, description: "The image's unless named." }),
    ),
    metadata_tokens: Type.Optional(
      Type.Enum(['required', 'optional'], {
        description: 'Whether the instance metadata service answers version 2 only (default).',
      }),
    ),
    tags: Type.Optional(
      Type.Record(Type.String({ pattern: '^(?!aws:|io\\.slipway\\.)[\\w .:/=+@-]{1,128}$' }), plainText(256), {
        maxProperties: 40,
        additionalProperties: false,
        description: 'Further tags of the machine and its volumes.',
      }),
    ),
    prepare: shellText('Shell, run as root at the first boot before the agent is fetched: the place to install Node.'),
    setup: setupScript,
    command: workloadCommand,
    env: workloadEnv('Environment of set-up, command and clean. It travels in the user-data.'),
    clean: cleanScript,
  },
  { additionalProperties: false },
);
export type Ec2Spec = Static<typeof Ec2Spec>;

const validator = Compile(Ec2Spec);

export const isEc2Spec = (spec: unknown): spec is Ec2Spec => validator.Check(spec);

/** The caller must have validated the spec; an invalid one is a bug and must not cost money. */
export function ec2Spec(spec: unknown): Ec2Spec {
  if (isEc2Spec(spec)) return spec;
  throw new TypeError('the spec of an ec2 node was not validated against its schema');
}
