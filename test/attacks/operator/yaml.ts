/** An operator sends pools as YAML that costs the server much more CPU time than the sender. */
import { send } from '../../api/support/calls.ts';
import { hostileYaml } from '../../api/support/hostile-input.ts';
import type { SpawnedServer } from '../../support/server.ts';
import type { Attack, SourceEdit } from '../support/attack.ts';
import { cpuSpentOn } from '../support/server-cpu.ts';

const yamlFile = 'src/api/http/bodies/yaml.ts';
const sizeLimit: SourceEdit = {
  ...{ file: yamlFile, find: 'maxYamlBytes = 32 * 1024;', replace: 'maxYamlBytes = 1024 * 1024;' },
};
const tokenLimit: SourceEdit = { file: yamlFile, find: '  checkTokens(text);\n', replace: '' };

/** CPU time of the server. A body that is refused early takes hundredths of a second. */
const maxCpuSeconds = 1.5;

async function putYaml(server: SpawnedServer, shape: string, bytes: number) {
  const { token } = await server.client.call('token-create', { body: { name: 'yaml', role: 'operator' } });
  const request = { raw: hostileYaml[shape]?.(bytes) ?? '', headers: { 'content-type': 'application/yaml' } };
  return () => send(server.url, 'PUT', '/v1/pools/hostile', { ...request, bearer: token ?? '' });
}

async function measureCpuSeconds(server: SpawnedServer, shape: string, bytes: number, times: number): Promise<number> {
  const put = await putYaml(server, shape, bytes);
  return cpuSpentOn(server.pid, async () => {
    for (let count = 0; count < times; count++) {
      const { status } = await put();
      if (status === 401 || status === 403) throw new Error(`the body was not read: ${status}`);
    }
  });
}

/**
 * The size limit, the token limit and the parser's options each bound the cost of the first two
 * attacks, so their counter-tests remove all three. The other two attacks test the size limit and
 * the token limit alone; src/api/http/bodies/yaml.test.ts tests the options.
 */
export const yamlAttacks: Attack[] = [
  {
    name: 'freezes the server with a YAML pool of many keys',
    without: [sizeLimit, tokenLimit, { file: yamlFile, find: 'uniqueKeys: false', replace: 'uniqueKeys: true' }],
    succeeds: async (server) => (await measureCpuSeconds(server, 'many keys', 120_000, 1)) > maxCpuSeconds,
  },
  {
    name: 'freezes the server with a YAML pool of many errors',
    without: [sizeLimit, tokenLimit, { file: yamlFile, find: 'prettyErrors: false', replace: 'prettyErrors: true' }],
    succeeds: async (server) => (await measureCpuSeconds(server, 'closing brackets', 90_000, 1)) > maxCpuSeconds,
  },
  {
    name: 'sends a YAML pool larger than the limit',
    without: [sizeLimit],
    async succeeds(server) {
      const { body } = await (await putYaml(server, 'a long scalar', 180_000))();
      return body.code !== 'body_too_large';
    },
  },
  {
    name: 'keeps the server busy with YAML pools of many tokens',
    without: [tokenLimit],
    async succeeds(server) {
      // Small bodies cost too little for an absolute limit, so this compares with harmless bodies
      // of the same size.
      await measureCpuSeconds(server, 'a long scalar', 30_000, 10);
      const harmless = await measureCpuSeconds(server, 'a long scalar', 30_000, 30);
      return (await measureCpuSeconds(server, 'closing brackets', 30_000, 30)) > 10 * harmless;
    },
  },
];
