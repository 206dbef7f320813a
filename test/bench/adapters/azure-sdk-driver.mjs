/**
 * @azure/storage-blob with its defaults: `uploadData`, `uploadFile`, and `downloadToBuffer` into
 * allocated memory.
 */

import { BlobServiceClient, StorageSharedKeyCredential } from '@azure/storage-blob';
import { job, measure } from '../peers/driver.mjs';
import { assertArrived, sourceMemory, targetMemory } from './memory.mjs';

const memory =
  job.action === 'upload' ? sourceMemory() : job.action === 'download to memory' ? targetMemory() : null;

function blob() {
  const { AZURE_STORAGE_ACCOUNT: account, AZURE_STORAGE_KEY: key } = process.env;
  const service = new BlobServiceClient(job.endpoint, new StorageSharedKeyCredential(account, key));
  return service.getContainerClient(job.bucket).getBlockBlobClient(job.sdkName);
}

await measure({
  upload: () => blob().uploadData(memory),
  'upload of a file': () => blob().uploadFile(job.filePath),
  'download to memory': () => blob().downloadToBuffer(memory),
});
if (job.action === 'download to memory') assertArrived(memory);
