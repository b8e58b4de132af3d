/**
 * Azure's SDKs, loaded at the first use, once, and strictly one after the other. Some of them are imported and some required, and they
 * share modules: Node refuses to require a module whose import has not ended, and keeps that refusal for as long as the process lives.
 */
async function load() {
  const identity = await import('@azure/identity');
  const aks = await import('@azure/arm-containerservice');
  const { createContainerService } = await import('@azure/arm-containerservice/api');
  const { ResourceManagementClient } = await import('@azure/arm-resources');
  const { AuthorizationManagementClient } = await import('@azure/arm-authorization');
  return { ...identity, ...aks, createContainerService, ResourceManagementClient, AuthorizationManagementClient };
}

let loaded: ReturnType<typeof load> | undefined;

export function azureSdks(): ReturnType<typeof load> {
  loaded ??= load();
  return loaded;
}
