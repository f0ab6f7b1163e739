//! A page around an SVG, which needs no other file and no network: details appear under the pointer.

use super::Chart;
use super::svg::escaped;

const STYLE: &str = "body{margin:24px;font-family:Helvetica,Arial,sans-serif;color:#222;background:#fff}\
svg{max-width:100%;height:auto}\
.bar:hover{stroke:#000;stroke-width:1.5}\
#details{position:fixed;display:none;pointer-events:none;white-space:pre;background:#222;color:#fff;\
padding:6px 10px;border-radius:4px;font-size:12px;line-height:1.5;box-shadow:0 2px 8px rgba(0,0,0,.3)}";

/// The title of a bar would appear a second time, and late, so the script takes it over.
const SCRIPT: &str = "const box=document.getElementById('details');\
for(const bar of document.querySelectorAll('.bar')){\
const title=bar.querySelector('title');const text=title.textContent;title.remove();\
bar.setAttribute('aria-label',text);\
bar.addEventListener('pointermove',e=>{box.textContent=text;box.style.display='block';\
const x=Math.min(e.clientX+14,innerWidth-box.offsetWidth-8);\
const y=Math.min(e.clientY+14,innerHeight-box.offsetHeight-8);\
box.style.left=x+'px';box.style.top=y+'px';});\
bar.addEventListener('pointerleave',()=>{box.style.display='none';});}";

/// The page. It is well-formed XML, too.
pub(super) fn page(chart: &Chart) -> String {
    let title = escaped(&chart.title);
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\">\n<head>\n<meta charset=\"utf-8\"/>\n\
         <title>{title}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n{}<div id=\"details\"></div>\n\
         <script>/*<![CDATA[*/{SCRIPT}/*]]>*/</script>\n</body>\n</html>\n",
        chart.svg
    )
}
